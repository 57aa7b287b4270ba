//! The reply to many questions at once, answer by answer.
//!
//! The library makes room for what lists among the answers say they have, and for each answer more than its octets. It
//! reads a reply when it has all of it, so a reply in whose midst something is wrong never ends.
//!
//! Invariant: all answers of a reply that ends are such as somebody may have asked for, and no more of them.
//!
//! Cost: O(octets), beside O(1) for each child and answer.

use crate::{COUNT, End, Fault, LISTS, judge_count, pass_octets};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader, BufWriter};

/// What an answer among many begins with: operation, whether it is the end, and outcome (`MultiHeader.java`).
const ANSWER_HEADER: usize = 9;
/// The operation of an answer that has a payload, and of one that says why there is none.
const PAYLOAD: i32 = 4;
const ERROR: i32 = -1;
/// Octets of a node's numbers (`Stat`), and of the reason for an error.
const STAT: usize = 68;
const REASON: usize = 4;
/// The most answers of a reply, several times what anybody asks for at once: in memory an answer takes more than its
/// octets.
const MOST_ANSWERS: usize = 1024;

/// Passes on the reply to many questions, answer by answer.
pub async fn pass_answers<R, W>(
    from: &mut BufReader<R>,
    to: &mut BufWriter<W>,
    length: u32,
    head: &[u8],
    limit: u32,
) -> Result<(), End>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    to.write_u32(length).await?;
    to.write_all(head).await?;
    let mut frame = Frame { from, to, rest: length as usize - head.len() };
    let (mut answers, mut children) = (0, 0u32);
    // An error of all has no answers.
    while frame.rest > 0 {
        let [operation @ .., is_end, _, _, _, _] = frame.take::<ANSWER_HEADER>().await?;
        if is_end != 0 {
            return frame.pass(frame.rest).await;
        }
        answers += 1;
        match i32::from_be_bytes(operation) {
            _ if answers > MOST_ANSWERS => return Err(End::Refused(Fault::Unasked)),
            PAYLOAD => {
                frame.pass_text().await?;
                frame.pass(STAT).await?;
            }
            operation if LISTS.contains(&operation) => {
                let count = frame.take::<COUNT>().await?;
                children = children.saturating_add(u32::try_from(i32::from_be_bytes(count)).unwrap_or(0));
                judge_count(children, length, limit)?;
                for _ in 0..i32::from_be_bytes(count) {
                    frame.pass_text().await?;
                }
            }
            ERROR => frame.pass(REASON).await?,
            _ => return Err(End::Refused(Fault::Unasked)),
        }
    }
    Ok(())
}

/// Frame that is passed on part by part. A part that reaches beyond its end is no answer to anything.
struct Frame<'a, R, W> {
    from: &'a mut BufReader<R>,
    to: &'a mut BufWriter<W>,
    /// Octets of it that are to come.
    rest: usize,
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Frame<'_, R, W> {
    /// Passes on so many octets.
    async fn pass(&mut self, octets: usize) -> Result<(), End> {
        self.rest = self.rest.checked_sub(octets).ok_or(End::Refused(Fault::Unasked))?;
        Ok(pass_octets(self.from, self.to, octets).await?)
    }

    /// Passes on so many octets, and returns them.
    async fn take<const OCTETS: usize>(&mut self) -> Result<[u8; OCTETS], End> {
        self.rest = self.rest.checked_sub(OCTETS).ok_or(End::Refused(Fault::Unasked))?;
        if self.from.buffer().len() < OCTETS {
            self.to.flush().await?;
        }
        let mut octets = [0; OCTETS];
        self.from.read_exact(&mut octets).await?;
        self.to.write_all(&octets).await?;
        Ok(octets)
    }

    /// Passes on a text or payload behind its length, of which the library reads a negative one as none.
    async fn pass_text(&mut self) -> Result<(), End> {
        let length = i32::from_be_bytes(self.take().await?);
        self.pass(usize::try_from(length).unwrap_or(0)).await
    }
}
