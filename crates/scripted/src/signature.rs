//! The signature of thinking blocks: the model signs what it says and recognises it when it comes back.
//!
//! A signature holds the number of the answer, the place among its thinking blocks, the conversation that the
//! answer belongs to (for models that bind their blocks to it) and a sum of the text, under a seal. It depends
//! on nothing else, so two runs of a script sign alike, and a session may go on in another process. It is no
//! secret: it finds mistakes of a client, not forgers.

/// What every signature of ours begins with.
const PREFIX: &str = "lathe1.";
const SEAL: &str = "scripted thinking";

/// What the signature of a thinking block says about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ThinkingSeal {
    /// The signature is ours.
    Own {
        /// Place among the thinking blocks of its answer.
        index: u32,
        /// The conversation before the answer; 0 where the answer is not bound to one.
        history: u64,
        /// Whether the text is the one that was signed.
        text_intact: bool,
    },
    /// It looks like ours and is not.
    Forged,
    /// There is none.
    Empty,
    /// Another model's.
    Foreign,
}

/// Signs the thinking block at place `index` of the answer `answer`.
pub(crate) fn sign(text: &str, answer: u64, index: u32, history: u64) -> String {
    let head = format!("{PREFIX}{answer}.{index}.{history:016x}.{:016x}", stable_hash(&[text]));
    let seal = stable_hash(&[&head, SEAL]);
    format!("{head}.{seal:016x}")
}

/// Looks at the signature that came with `text`.
pub(crate) fn inspect(signature: &str, text: &str) -> ThinkingSeal {
    if signature.is_empty() {
        return ThinkingSeal::Empty;
    }
    if !signature.starts_with(PREFIX) {
        return ThinkingSeal::Foreign;
    }
    parse(signature, text).unwrap_or(ThinkingSeal::Forged)
}

fn parse(signature: &str, text: &str) -> Option<ThinkingSeal> {
    let (head, seal) = signature.rsplit_once('.')?;
    if seal != format!("{:016x}", stable_hash(&[head, SEAL])) {
        return None;
    }
    let mut parts = head.strip_prefix(PREFIX)?.split('.');
    let (_answer, index, history, sum) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    Some(ThinkingSeal::Own {
        index: index.parse().ok()?,
        history: u64::from_str_radix(history, 16).ok()?,
        text_intact: sum == format!("{:016x}", stable_hash(&[text])),
    })
}

/// FNV-1a: the same on every machine and in every version.
fn stable_hash(parts: &[&str]) -> u64 {
    let bytes = parts.iter().flat_map(|part| part.bytes().chain([0xff]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_blocks_are_recognised_and_changed_ones_found() {
        let signature = sign("hm", 12, 1, 0xabc);
        let own = ThinkingSeal::Own { index: 1, history: 0xabc, text_intact: true };
        assert_eq!(inspect(&signature, "hm"), own);
        assert_eq!(sign("hm", 12, 1, 0xabc), signature, "two runs sign alike");
        let changed = ThinkingSeal::Own { index: 1, history: 0xabc, text_intact: false };
        assert_eq!(inspect(&signature, "hmm"), changed);
        assert_eq!(inspect(&signature.replace(".1.", ".0."), "hm"), ThinkingSeal::Forged);
        assert_eq!(inspect("lathe1.", "hm"), ThinkingSeal::Forged);
        assert_eq!(inspect("", "hm"), ThinkingSeal::Empty);
        assert_eq!(inspect("EqQBCkYIBxgC", "hm"), ThinkingSeal::Foreign);
    }
}
