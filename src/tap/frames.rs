//! Frame Streams, the transport of dnstap: data frames with their length in front, between frames of control.
//!
//! The stream is bidirectional: we say what the data frames will have (READY), the reader accepts it (ACCEPT), we begin
//! (START), and end in order (STOP, which the reader answers with FINISH). All numbers are in network byte order.
//!
//! Invariant: what a reader sends is looked at up to [`MOST_CONTROL`] octets a frame, whatever length it tells.
//!
//! Cost: O(frame).

use std::io;
use tokio::io::{AsyncRead, AsyncReadExt};

/// What the data frames have: messages of the format dnstap.
pub const CONTENT_TYPE: &[u8] = b"protobuf:dnstap.Dnstap";
/// The longest control frame, as the format limits it.
const MOST_CONTROL: usize = 512;
/// Octets of a field's type and length.
const FIELD_HEAD: usize = 8;
/// The field with a content type.
const FIELD_CONTENT_TYPE: u32 = 1;

/// Control frames, by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Control {
    Accept = 1,
    Start = 2,
    Stop = 3,
    Ready = 4,
    Finish = 5,
}

/// Why a reader is not one that we can write to.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    #[error("{0}")]
    Connection(#[from] io::Error),
    #[error("it does not speak Frame Streams")]
    Format,
    #[error("it does not accept dnstap")]
    Content,
}

/// Writes a control frame, with the content type where there is to be one.
pub fn control(kind: Control) -> Vec<u8> {
    let has_type = matches!(kind, Control::Ready | Control::Start | Control::Accept);
    let field = if has_type { FIELD_HEAD + CONTENT_TYPE.len() } else { 0 };
    let mut frame = Vec::with_capacity(12 + field);
    // A length of 0 announces control.
    frame.extend_from_slice(&0_u32.to_be_bytes());
    frame.extend_from_slice(&((4 + field) as u32).to_be_bytes());
    frame.extend_from_slice(&(kind as u32).to_be_bytes());
    if has_type {
        frame.extend_from_slice(&FIELD_CONTENT_TYPE.to_be_bytes());
        frame.extend_from_slice(&(CONTENT_TYPE.len() as u32).to_be_bytes());
        frame.extend_from_slice(CONTENT_TYPE);
    }
    frame
}

/// Reads a control frame of a kind; one that names content must name ours among it.
pub async fn expect(kind: Control, stream: &mut (impl AsyncRead + Unpin)) -> Result<(), FrameError> {
    if stream.read_u32().await? != 0 {
        return Err(FrameError::Format);
    }
    let length = stream.read_u32().await? as usize;
    if !(4..=MOST_CONTROL).contains(&length) {
        return Err(FrameError::Format);
    }
    let mut frame = vec![0; length];
    stream.read_exact(&mut frame).await?;
    let (number, mut fields) = frame.split_at(4);
    if number != (kind as u32).to_be_bytes() {
        return Err(FrameError::Format);
    }
    let (mut named, mut ours) = (false, false);
    while !fields.is_empty() {
        let (head, rest) = fields.split_at_checked(FIELD_HEAD).ok_or(FrameError::Format)?;
        let (field, length) = head.split_at(4);
        let length = length.iter().fold(0, |length, octet| length << 8 | usize::from(*octet));
        let (value, rest) = rest.split_at_checked(length).ok_or(FrameError::Format)?;
        if field == FIELD_CONTENT_TYPE.to_be_bytes() {
            (named, ours) = (true, ours || value == CONTENT_TYPE);
        }
        fields = rest;
    }
    if named && !ours { Err(FrameError::Content) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What reading a control frame out of these octets says.
    async fn read(kind: Control, mut octets: &[u8]) -> String {
        expect(kind, &mut octets).await.map_or_else(|error| error.to_string(), |()| format!("{} left", octets.len()))
    }

    #[tokio::test]
    async fn what_is_written_is_read() {
        for kind in [Control::Accept, Control::Start, Control::Stop, Control::Ready, Control::Finish] {
            let frame = control(kind);
            assert_eq!(read(kind, &[&frame[..], b"next"].concat()).await, "4 left", "{kind:?}");
            let cut = read(kind, &frame[..frame.len() - 1]).await;
            assert!(cut.contains("eof"), "{cut}");
        }
        assert_eq!(read(Control::Accept, &control(Control::Finish)).await, FrameError::Format.to_string());
    }

    #[tokio::test]
    async fn only_a_reader_of_dnstap_is_written_to() {
        let head = |length: u32, kind: Control| [0, length, kind as u32].map(u32::to_be_bytes).concat();
        let field =
            |kind: u32, value: &[u8]| [&kind.to_be_bytes()[..], &(value.len() as u32).to_be_bytes(), value].concat();
        let accepts = |fields: &[Vec<u8>]| {
            let fields = fields.concat();
            [head(4 + fields.len() as u32, Control::Accept), fields].concat()
        };
        let none = accepts(&[]);
        let other = accepts(&[field(1, b"text")]);
        let among = accepts(&[field(1, b"text"), field(1, CONTENT_TYPE), field(9, b"x")]);
        assert_eq!(read(Control::Accept, &none).await, "0 left", "one that takes anything");
        assert_eq!(read(Control::Accept, &other).await, FrameError::Content.to_string());
        assert_eq!(read(Control::Accept, &among).await, "0 left");
        for wrong in [head(513, Control::Accept), head(3, Control::Accept), b"HTTP/1.1 400 Bad Request\r\n".to_vec()] {
            assert_eq!(read(Control::Accept, &wrong).await, FrameError::Format.to_string());
        }
        let short =
            [head(4 + 9, Control::Accept), 1_u32.to_be_bytes().to_vec(), 99_u32.to_be_bytes().to_vec(), vec![0]];
        assert_eq!(read(Control::Accept, &short.concat()).await, FrameError::Format.to_string());
    }
}
