//! A figure of the page: a measure over two parameters.

use serde::{Deserialize, Serialize};

/// A published point beside ours, in shown values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mark {
    /// Horizontal position.
    pub x: f64,
    /// Vertical position.
    pub y: f64,
    /// Value at the point, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub z: Option<f64>,
    /// Label of the point.
    pub label: String,
}

/// A parameter of a figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Axis {
    /// Label with unit.
    pub label: String,
    /// Whether the axis is logarithmic.
    pub log: bool,
    /// Shown values, ascending.
    pub values: Vec<f64>,
}

/// A figure: a measure over two parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// Id of the grid.
    pub id: String,
    /// Title of the figure.
    pub title: String,
    /// Unit of `z`, `levels` and the marks' `z`.
    pub unit: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// A row per value of `y`, with a number per value of `x`; `None` if a run lacks the measure.
    pub z: Vec<Vec<Option<f64>>>,
    /// Values at which to draw a contour line, ascending.
    pub levels: Vec<f64>,
    /// Published points beside ours.
    pub marks: Vec<Mark>,
}
