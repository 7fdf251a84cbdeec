//! Query operations, response codes, identifiers of descriptors, flags and attributes, and the meaning of some values.
//!
//! Identifiers are from Linux 6.1 `include/ufs/ufs.h`, except those for refresh and throttling, which later versions of
//! JESD220 add (attributes 1Bh and 2Ch to 2Fh; flag 07h).

use super::wire::byte_enum;

byte_enum! {
    /// OPCODE of a query.
    pub enum QueryOpcode {
        /// READ DESCRIPTOR: the descriptor is in the data segment of the response.
        ReadDescriptor = 0x01,
        /// WRITE DESCRIPTOR: the descriptor is in the data segment of the request.
        WriteDescriptor = 0x02,
        /// READ ATTRIBUTE: an attribute is a number of 1 to 4 bytes.
        ReadAttribute = 0x03,
        /// WRITE ATTRIBUTE.
        WriteAttribute = 0x04,
        /// READ FLAG.
        ReadFlag = 0x05,
        /// SET FLAG.
        SetFlag = 0x06,
        /// CLEAR FLAG.
        ClearFlag = 0x07,
        /// TOGGLE FLAG: inverts a flag.
        ToggleFlag = 0x08,
    }
}

impl QueryOpcode {
    /// QUERY FUNCTION of the operation: standard read request (01h) or standard write request (81h).
    pub const fn function(self) -> u8 {
        match self {
            QueryOpcode::ReadDescriptor | QueryOpcode::ReadAttribute | QueryOpcode::ReadFlag => 0x01,
            _ => 0x81,
        }
    }
}

byte_enum! {
    /// QUERY RESPONSE: result of a query.
    pub enum QueryCode {
        /// Success.
        Success = 0x00,
        /// Parameter not readable.
        NotReadable = 0xf6,
        /// Parameter not writeable.
        NotWriteable = 0xf7,
        /// Parameter already written: it can be written only once.
        AlreadyWritten = 0xf8,
        /// Invalid length.
        InvalidLength = 0xf9,
        /// Invalid value.
        InvalidValue = 0xfa,
        /// Invalid selector.
        InvalidSelector = 0xfb,
        /// Invalid index.
        InvalidIndex = 0xfc,
        /// Invalid identifier (IDN).
        InvalidIdn = 0xfd,
        /// Invalid opcode.
        InvalidOpcode = 0xfe,
        /// General failure: any other error.
        GeneralFailure = 0xff,
    }
}

byte_enum! {
    /// Descriptor identifiers (bDescriptorIDN).
    pub enum DescriptorIdn {
        /// Device descriptor.
        Device = 0x00,
        /// Configuration descriptor: the configurable parameters of the device and its logical units.
        Configuration = 0x01,
        /// Unit descriptor; the index of the query is the LUN.
        Unit = 0x02,
        /// Interconnect descriptor: versions of the link.
        Interconnect = 0x04,
        /// String descriptor.
        String = 0x05,
        /// Geometry descriptor: sizes and limits.
        Geometry = 0x07,
        /// Power descriptor: currents.
        Power = 0x08,
        /// Device health descriptor: wear.
        Health = 0x09,
    }
}

byte_enum! {
    /// Flag identifiers.
    pub enum Flag {
        /// fDeviceInit: set by the host, cleared by the device when its initialization is complete.
        DeviceInit = 0x01,
        /// fPermanentWPEn: permanent write protection.
        PermanentWriteProtect = 0x02,
        /// fPowerOnWPEn: power-on write protection.
        PowerOnWriteProtect = 0x03,
        /// fBackgroundOpsEn: the device may perform background operations.
        BackgroundOperations = 0x04,
        /// fDeviceLifeSpanModeEn: device life span mode.
        LifeSpanMode = 0x05,
        /// fPurgeEnable: purge operation.
        Purge = 0x06,
        /// fRefreshEnable: refresh operation.
        Refresh = 0x07,
        /// fPhyResourceRemoval: removal of physical resources (dynamic capacity).
        PhysicalResourceRemoval = 0x08,
        /// fBusyRTC: busy flag of the real-time clock.
        BusyClock = 0x09,
        /// fPermanentlyDisableFwUpdate: no firmware update, permanently.
        NoFirmwareUpdate = 0x0b,
        /// fWriteBoosterEn: writes go to the WriteBooster buffer.
        WriteBooster = 0x0e,
        /// fWriteBoosterBufferFlushEn: the device flushes the WriteBooster buffer.
        WriteBoosterFlush = 0x0f,
        /// fWriteBoosterBufferFlushDuringHibernate: the device flushes the buffer while the link is in hibernate.
        WriteBoosterFlushInHibernate = 0x10,
        /// fHPBReset: set by the host to reset all HPB state, cleared by the device when that is done.
        HpbReset = 0x11,
        /// fHPBEn: HPB commands are enabled.
        Hpb = 0x12,
    }
}

byte_enum! {
    /// Attribute identifiers.
    pub enum Attribute {
        /// bBootLunEn: the boot logical unit that is enabled.
        BootLu = 0x00,
        /// bMaxDataSizeForHPBSingleCmd: see [`hpb_single_command_bytes`].
        HpbSingleCommandSize = 0x01,
        /// bCurrentPowerMode: current power mode.
        PowerMode = 0x02,
        /// bActiveICCLevel: current (ICC) level of the active power mode.
        ActiveCurrentLevel = 0x03,
        /// bOutOfOrderDataEn: out-of-order data transfer.
        OutOfOrderData = 0x04,
        /// bBackgroundOpStatus: background operations needed: 0 no, 1 not critical, 2 affects performance, 3 critical.
        BackgroundStatus = 0x05,
        /// bPurgeStatus: status of the purge operation.
        PurgeStatus = 0x06,
        /// bMaxDataInSize: maximum data of a DATA IN UPIU, in units of 512 bytes.
        MaxDataIn = 0x07,
        /// bMaxDataOutSize: maximum data of a DATA OUT UPIU, in units of 512 bytes.
        MaxDataOut = 0x08,
        /// dDynCapNeeded: dynamic capacity needed.
        DynamicCapacityNeeded = 0x09,
        /// bRefClkFreq: frequency of the reference clock.
        ReferenceClock = 0x0a,
        /// bConfigDescrLock: lock of the configuration descriptor.
        ConfigurationLock = 0x0b,
        /// bMaxNumOfRTT: maximum number of outstanding READY TO TRANSFER UPIUs.
        MaxReadyToTransfer = 0x0c,
        /// wExceptionEventControl: the exception events that set EVENT_ALERT.
        EventControl = 0x0d,
        /// wExceptionEventStatus: pending exception events; bit 5: the WriteBooster buffer needs a flush.
        EventStatus = 0x0e,
        /// dSecondsPassed: time from the host, in seconds.
        SecondsPassed = 0x0f,
        /// wContextConf: configuration of a context.
        ContextConfiguration = 0x10,
        /// bDeviceFFUStatus: status of a field firmware update.
        FirmwareUpdateStatus = 0x14,
        /// bPSAState: state of production state awareness (PSA).
        ProductionState = 0x15,
        /// dPSADataSize: amount of PSA data, in units of 4 KiB.
        ProductionDataSize = 0x16,
        /// bRefClkGatingWaitTime: time to wait before the reference clock is gated, in microseconds.
        ClockGatingWait = 0x17,
        /// bDeviceCaseRoughTemperature: case temperature in degrees Celsius + 80.
        CaseTemperature = 0x18,
        /// bDeviceTooHighTempBoundary: upper temperature limit in degrees Celsius + 80.
        HighTemperature = 0x19,
        /// bDeviceTooLowTempBoundary: lower temperature limit in degrees Celsius + 80.
        LowTemperature = 0x1a,
        /// bThrottlingStatus: status of performance throttling.
        Throttling = 0x1b,
        /// bWriteBoosterBufferFlushStatus: see [`FlushStatus`].
        WriteBoosterFlushStatus = 0x1c,
        /// bAvailableWriteBoosterBufferSize: see [`writebooster_available_percent`].
        WriteBoosterAvailable = 0x1d,
        /// bWriteBoosterBufferLifeTimeEst: see [`writebooster_life_used_percent`].
        WriteBoosterLife = 0x1e,
        /// dCurrentWriteBoosterBufferSize: current size of the buffer, in allocation units.
        WriteBoosterSize = 0x1f,
        /// bRefreshStatus: status of the refresh operation.
        RefreshStatus = 0x2c,
        /// bRefreshFreq: refresh frequency.
        RefreshFrequency = 0x2d,
        /// bRefreshUnit: refresh unit.
        RefreshUnit = 0x2e,
        /// bRefreshMethod: refresh method.
        RefreshMethod = 0x2f,
    }
}

impl Attribute {
    /// Size of the value in bytes: 1, 2 or 4.
    pub const fn bytes(self) -> usize {
        use Attribute::*;
        match self {
            DynamicCapacityNeeded | SecondsPassed | ProductionDataSize | WriteBoosterSize => 4,
            EventControl | EventStatus | ContextConfiguration => 2,
            _ => 1,
        }
    }
}

byte_enum! {
    /// bWriteBoosterBufferFlushStatus. The last three values return to idle once they are read.
    pub enum FlushStatus {
        /// Idle: nothing to flush, or no flush requested.
        Idle = 0x00,
        /// Flush in progress.
        InProgress = 0x01,
        /// Flush stopped by the host before the buffer was empty.
        Stopped = 0x02,
        /// Flush completed: the buffer is empty.
        Done = 0x03,
        /// Flush failed.
        Failed = 0x04,
    }
}

/// Maximum size in bytes of one HPB READ without a pre-request, from [`Attribute::HpbSingleCommandSize`]: 4 KiB times
/// one more than the value.
pub const fn hpb_single_command_bytes(value: u8) -> u32 {
    (value as u32 + 1) * 4096
}

/// Free share of the WriteBooster buffer in percent, from [`Attribute::WriteBoosterAvailable`], which counts in tenths;
/// `None` for a reserved value.
pub const fn writebooster_available_percent(value: u8) -> Option<u8> {
    if value <= 10 { Some(value * 10) } else { None }
}

/// Upper limit of the used life of the WriteBooster buffer in percent, from [`Attribute::WriteBoosterLife`]: 01h is up
/// to 10 %, 0Ah up to 100 %, 0Bh more (`u8::MAX`). `None` if not reported, or for a reserved value.
pub const fn writebooster_life_used_percent(value: u8) -> Option<u8> {
    match value {
        1..=10 => Some(value * 10),
        11 => Some(u8::MAX),
        _ => None,
    }
}
