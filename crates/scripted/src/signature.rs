//! The signature of thinking blocks: the model signs its blocks and recognises them when they are sent back.
//!
//! A signature holds the number of the response, the index among its thinking blocks, the conversation that the
//! response belongs to (for models that bind their blocks to it) and a checksum of the text, followed by a checksum
//! over all of it. It depends on nothing else, so two runs of a script sign alike, and a session may continue in
//! another process. It is not a secret: it finds mistakes of a client, not forgers.

/// The beginning of every signature of this model.
const PREFIX: &str = "lathe1.";
const SEAL: &str = "scripted thinking";

/// What the signature of a thinking block says about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ThinkingSeal {
    /// The signature is from this model.
    Own {
        /// Index among the thinking blocks of its response.
        index: u32,
        /// The conversation before the response; 0 if the response is not bound to one.
        history: u64,
        /// Whether the text is the one that was signed.
        text_intact: bool,
    },
    /// It looks like one of this model and is not.
    Forged,
    /// There is none.
    Empty,
    /// It is from another model.
    Foreign,
}

/// Returns the signature of the thinking block at `index` of the response number `answer`. `history` is the hash of the
/// conversation before the response, to which the block is bound; 0 binds it to none.
pub(crate) fn sign(text: &str, answer: u64, index: u32, history: u64) -> String {
    let head = format!("{PREFIX}{answer}.{index}.{history:016x}.{:016x}", stable_hash(&[text]));
    let seal = stable_hash(&[&head, SEAL]);
    format!("{head}.{seal:016x}")
}

/// Returns what the signature that was sent with `text` says: whether it is from this model, and whether text and
/// signature are unchanged. A signature with the prefix of this model but a wrong checksum is forged.
pub(crate) fn inspect(signature: &str, text: &str) -> ThinkingSeal {
    if signature.is_empty() {
        return ThinkingSeal::Empty;
    }
    if !signature.starts_with(PREFIX) {
        return ThinkingSeal::Foreign;
    }
    parse(signature, text).unwrap_or(ThinkingSeal::Forged)
}

/// Parses a signature of this model; `None` if its checksum does not match or a part is missing. A changed text is not
/// an error here: `text_intact` of the result is then false.
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

/// Returns the FNV-1a hash of the parts, each ended by 0xff, so that their division counts too. It must stay as it is
/// in every version, because recorded signatures contain it.
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
