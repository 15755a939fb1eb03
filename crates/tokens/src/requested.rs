//! Chat templates that come in requests, where the operator has them run.
//!
//! In: a template's source; out: it compiled, and remembered by its content: at most [`KEPT`] of them, none longer than
//! [`LONGEST`]. What a rendering may take is bounded as for any template.

use std::sync::Arc;

use parking_lot::Mutex;
use xxhash_rust::xxh3::xxh3_128;

use crate::{EncodeError, Fault, Template, TemplateError};

/// How many are remembered.
const KEPT: usize = 32;

/// The longest source that is compiled, in bytes: the longest of known models has 20 KB.
const LONGEST: usize = 256 << 10;

/// Those compiled last, the latest at the end.
#[derive(Debug, Default)]
pub(crate) struct Requested(Mutex<Vec<(u128, Arc<Template>)>>);

impl Requested {
    /// The template of this source.
    pub(crate) fn compiled(&self, source: &str) -> Result<Arc<Template>, EncodeError> {
        if source.len() > LONGEST {
            let message = format!("a request's chat template is longer than {LONGEST} bytes");
            return Err(EncodeError::Template(TemplateError { fault: Fault::TooLong, message, line: None }));
        }
        let hash = xxh3_128(source.as_bytes());
        if let Some(known) = self.known(hash) {
            return Ok(known);
        }
        // Not under the lock: it takes milliseconds.
        let template = Arc::new(Template::compile(source).map_err(EncodeError::Template)?);
        let mut kept = self.0.lock();
        if kept.len() >= KEPT {
            kept.remove(0);
        }
        kept.push((hash, Arc::clone(&template)));
        Ok(template)
    }

    fn known(&self, hash: u128) -> Option<Arc<Template>> {
        let mut kept = self.0.lock();
        let at = kept.iter().position(|(own, _)| *own == hash)?;
        let found = kept.remove(at);
        let template = Arc::clone(&found.1);
        kept.push(found);
        Some(template)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_are_compiled_once_and_few_are_kept() {
        let requested = Requested::default();
        let first = requested.compiled("a").expect("it compiles");
        assert!(Arc::ptr_eq(&first, &requested.compiled("a").expect("it is known")));
        for other in 0..KEPT {
            requested.compiled(&format!("{other}")).expect("it compiles");
        }
        assert!(!Arc::ptr_eq(&first, &requested.compiled("a").expect("it compiles again")));
        assert_eq!(requested.0.lock().len(), KEPT);
    }

    #[test]
    fn long_and_broken_ones_are_refused() {
        let requested = Requested::default();
        assert!(matches!(requested.compiled(&"a".repeat(LONGEST + 1)), Err(EncodeError::Template(_))));
        assert!(matches!(requested.compiled("{% if %}"), Err(EncodeError::Template(_))));
        assert!(requested.0.lock().is_empty());
    }
}
