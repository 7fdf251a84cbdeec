//! What a query names: operations, response codes, descriptors, flags and attributes, and what some values mean.
//!
//! Identifiers are read in Linux 6.1 `include/ufs/ufs.h` but for the three of refresh and throttling, which later
//! versions of JESD220 add (1Bh, 2Ch to 2Fh; flag 07h).

use super::wire::byte_enum;

byte_enum! {
    /// What a query does.
    pub enum QueryOpcode {
        /// Reads a descriptor, which comes in the data segment of the response.
        ReadDescriptor = 0x01,
        /// Writes a descriptor, which goes in the data segment of the request.
        WriteDescriptor = 0x02,
        /// Reads an attribute: a number of 1 to 4 bytes.
        ReadAttribute = 0x03,
        /// Writes one.
        WriteAttribute = 0x04,
        /// Reads a flag.
        ReadFlag = 0x05,
        /// Sets one.
        SetFlag = 0x06,
        /// Clears one.
        ClearFlag = 0x07,
        /// Turns one over.
        ToggleFlag = 0x08,
    }
}

impl QueryOpcode {
    /// The query function that goes with it: standard read request 01h or standard write request 81h.
    pub const fn function(self) -> u8 {
        match self {
            QueryOpcode::ReadDescriptor | QueryOpcode::ReadAttribute | QueryOpcode::ReadFlag => 0x01,
            _ => 0x81,
        }
    }
}

byte_enum! {
    /// How a query ended.
    pub enum QueryCode {
        /// Done.
        Success = 0x00,
        /// The parameter cannot be read.
        NotReadable = 0xf6,
        /// The parameter cannot be written.
        NotWriteable = 0xf7,
        /// The parameter can be written once, and was.
        AlreadyWritten = 0xf8,
        /// The length is wrong.
        InvalidLength = 0xf9,
        /// The value is wrong.
        InvalidValue = 0xfa,
        /// There is no such selector.
        InvalidSelector = 0xfb,
        /// There is no such index.
        InvalidIndex = 0xfc,
        /// There is no such identifier.
        InvalidIdn = 0xfd,
        /// There is no such operation.
        InvalidOpcode = 0xfe,
        /// Anything else.
        GeneralFailure = 0xff,
    }
}

byte_enum! {
    /// Descriptors by identifier (bDescriptorIDN).
    pub enum DescriptorIdn {
        /// The device.
        Device = 0x00,
        /// What of device and units can be configured.
        Configuration = 0x01,
        /// A logical unit; the index is its number.
        Unit = 0x02,
        /// Versions of the link.
        Interconnect = 0x04,
        /// A string.
        String = 0x05,
        /// Sizes and limits.
        Geometry = 0x07,
        /// Currents.
        Power = 0x08,
        /// Wear.
        Health = 0x09,
    }
}

byte_enum! {
    /// Flags by identifier.
    pub enum Flag {
        /// fDeviceInit: set by the host, cleared by the device once it is up.
        DeviceInit = 0x01,
        /// fPermanentWPEn.
        PermanentWriteProtect = 0x02,
        /// fPowerOnWPEn.
        PowerOnWriteProtect = 0x03,
        /// fBackgroundOpsEn: the device may work on its own.
        BackgroundOperations = 0x04,
        /// fDeviceLifeSpanModeEn.
        LifeSpanMode = 0x05,
        /// fPurgeEnable.
        Purge = 0x06,
        /// fRefreshEnable.
        Refresh = 0x07,
        /// fPhyResourceRemoval.
        PhysicalResourceRemoval = 0x08,
        /// fBusyRTC.
        BusyClock = 0x09,
        /// fPermanentlyDisableFwUpdate.
        NoFirmwareUpdate = 0x0b,
        /// fWriteBoosterEn: writes go through the buffer.
        WriteBooster = 0x0e,
        /// fWriteBoosterBufferFlushEn: the device empties the buffer.
        WriteBoosterFlush = 0x0f,
        /// fWriteBoosterBufferFlushDuringHibernate: it does so while the link hibernates.
        WriteBoosterFlushInHibernate = 0x10,
        /// fHPBReset: set by the host to forget all HPB state, cleared by the device once it has.
        HpbReset = 0x11,
        /// fHPBEn: HPB commands are taken.
        Hpb = 0x12,
    }
}

byte_enum! {
    /// Attributes by identifier.
    pub enum Attribute {
        /// bBootLunEn.
        BootLu = 0x00,
        /// bMaxDataSizeForHPBSingleCmd: see [`hpb_single_command_bytes`].
        HpbSingleCommandSize = 0x01,
        /// bCurrentPowerMode.
        PowerMode = 0x02,
        /// bActiveICCLevel.
        ActiveCurrentLevel = 0x03,
        /// bOutOfOrderDataEn.
        OutOfOrderData = 0x04,
        /// bBackgroundOpStatus: 0 no need, 1 need, 2 slower without, 3 critical.
        BackgroundStatus = 0x05,
        /// bPurgeStatus.
        PurgeStatus = 0x06,
        /// bMaxDataInSize, in units of 512 bytes.
        MaxDataIn = 0x07,
        /// bMaxDataOutSize, in units of 512 bytes.
        MaxDataOut = 0x08,
        /// dDynCapNeeded.
        DynamicCapacityNeeded = 0x09,
        /// bRefClkFreq.
        ReferenceClock = 0x0a,
        /// bConfigDescrLock.
        ConfigurationLock = 0x0b,
        /// bMaxNumOfRTT: transfers that the device may ask for at a time.
        MaxReadyToTransfer = 0x0c,
        /// wExceptionEventControl: the events that set EVENT_ALERT.
        EventControl = 0x0d,
        /// wExceptionEventStatus; bit 5: the WriteBooster buffer wants to be flushed.
        EventStatus = 0x0e,
        /// dSecondsPassed.
        SecondsPassed = 0x0f,
        /// wContextConf.
        ContextConfiguration = 0x10,
        /// bDeviceFFUStatus.
        FirmwareUpdateStatus = 0x14,
        /// bPSAState.
        ProductionState = 0x15,
        /// dPSADataSize, in units of 4 KiB.
        ProductionDataSize = 0x16,
        /// bRefClkGatingWaitTime, in microseconds.
        ClockGatingWait = 0x17,
        /// bDeviceCaseRoughTemperature: degrees Celsius + 80.
        CaseTemperature = 0x18,
        /// bDeviceTooHighTempBoundary: the same.
        HighTemperature = 0x19,
        /// bDeviceTooLowTempBoundary: the same.
        LowTemperature = 0x1a,
        /// bThrottlingStatus.
        Throttling = 0x1b,
        /// bWriteBoosterBufferFlushStatus: see [`FlushStatus`].
        WriteBoosterFlushStatus = 0x1c,
        /// bAvailableWriteBoosterBufferSize: see [`writebooster_available_percent`].
        WriteBoosterAvailable = 0x1d,
        /// bWriteBoosterBufferLifeTimeEst: see [`writebooster_life_used_percent`].
        WriteBoosterLife = 0x1e,
        /// dCurrentWriteBoosterBufferSize, in allocation units.
        WriteBoosterSize = 0x1f,
        /// bRefreshStatus.
        RefreshStatus = 0x2c,
        /// bRefreshFreq.
        RefreshFrequency = 0x2d,
        /// bRefreshUnit.
        RefreshUnit = 0x2e,
        /// bRefreshMethod.
        RefreshMethod = 0x2f,
    }
}

impl Attribute {
    /// How many bytes of the value count: 1, 2 or 4.
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
    /// bWriteBoosterBufferFlushStatus. The last three go back to idle once they are read.
    pub enum FlushStatus {
        /// Nothing to do, or not asked.
        Idle = 0x00,
        /// Under way.
        InProgress = 0x01,
        /// Stopped by the host before the buffer was empty.
        Stopped = 0x02,
        /// The buffer is empty.
        Done = 0x03,
        /// Failed.
        Failed = 0x04,
    }
}

/// The longest read that one HPB READ may ask for without entries sent before, from
/// [`Attribute::HpbSingleCommandSize`]: 4 KiB times one more than the value.
pub const fn hpb_single_command_bytes(value: u8) -> u32 {
    (value as u32 + 1) * 4096
}

/// What of the WriteBooster buffer is free, from [`Attribute::WriteBoosterAvailable`], which counts in tenths; `None`
/// for a reserved value.
pub const fn writebooster_available_percent(value: u8) -> Option<u8> {
    if value <= 10 { Some(value * 10) } else { None }
}

/// What of the WriteBooster buffer's life is used at most, from [`Attribute::WriteBoosterLife`]: 01h is up to 10 %, 0Ah
/// up to 100 %, 0Bh beyond that (`u8::MAX`). `None` where the device does not say, or for a reserved value.
pub const fn writebooster_life_used_percent(value: u8) -> Option<u8> {
    match value {
        1..=10 => Some(value * 10),
        11 => Some(u8::MAX),
        _ => None,
    }
}
