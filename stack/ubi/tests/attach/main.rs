//! Attach by scan and by fastmap, on flash built byte by byte: rules, lies, faults and real images.

mod compare;
mod device;
mod fastmap;
mod fastmap_lies;
mod formats;
mod fuzz;
mod scan;
mod support;
mod ubinize;
