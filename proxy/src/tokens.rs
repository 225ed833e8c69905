//! Counts tokens in linear time, even in hostile text: callers choose the text, and it is counted before they pay.

use bpe_openai::Tokenizer;
use tokio::sync::OnceCell;

/// The built-in vocabularies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Vocabulary {
    /// GPT-4o and later models. A fair estimate for other families.
    #[default]
    O200k,
    /// GPT-3.5 and GPT-4.
    Cl100k,
}

impl Vocabulary {
    /// Every vocabulary.
    pub const ALL: [Self; 2] = [Self::O200k, Self::Cl100k];

    /// Returns the name, as OpenAI writes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::O200k => "o200k_base",
            Self::Cl100k => "cl100k_base",
        }
    }

    /// Returns the vocabulary with this name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.name() == name)
    }

    /// Returns the number of tokens of a text.
    ///
    /// Text that looks like a special token counts as plain text.
    pub fn count(self, text: &str) -> u64 {
        u64::try_from(self.tokenizer().count(text)).unwrap_or(u64::MAX)
    }

    /// Returns whether the vocabulary is loaded, so that [`Vocabulary::count`] is fast.
    pub fn is_loaded(self) -> bool {
        self.cell().initialized()
    }

    /// Loads the vocabulary if it is not loaded yet.
    ///
    /// Loading takes 50 ms and about 20 MiB, on a blocking thread. Simultaneous callers share one load.
    pub async fn load(self) {
        let load = || async move {
            let loading = tokio::task::spawn_blocking(move || {
                let _loaded = self.tokenizer();
            });
            // If the blocking task did not finish, the next count loads the vocabulary.
            let _ended = loading.await;
        };
        self.cell().get_or_init(load).await;
    }

    fn cell(self) -> &'static OnceCell<()> {
        static O200K: OnceCell<()> = OnceCell::const_new();
        static CL100K: OnceCell<()> = OnceCell::const_new();
        match self {
            Self::O200k => &O200K,
            Self::Cl100k => &CL100K,
        }
    }

    fn tokenizer(self) -> &'static Tokenizer {
        match self {
            Self::O200k => bpe_openai::o200k_base(),
            Self::Cl100k => bpe_openai::cl100k_base(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn count_with_tiktoken(vocabulary: Vocabulary, text: &str) -> u64 {
        let peer = match vocabulary {
            Vocabulary::O200k => tiktoken_rs::o200k_base_singleton(),
            Vocabulary::Cl100k => tiktoken_rs::cl100k_base_singleton(),
        };
        u64::try_from(peer.encode_ordinary(text).len()).unwrap()
    }

    #[test]
    fn known_texts_have_known_lengths() {
        for vocabulary in Vocabulary::ALL {
            assert_eq!(Vocabulary::by_name(vocabulary.name()), Some(vocabulary));
            assert_eq!(vocabulary.count(""), 0);
            assert_eq!(vocabulary.count("hello world"), 2);
            // A special token in a text counts as plain characters.
            assert!(vocabulary.count("<|endoftext|>") > 3);
        }
        assert_eq!(Vocabulary::by_name("p50k_base"), None);
        // These counts are from OpenAI's examples of tiktoken.
        assert_eq!(Vocabulary::Cl100k.count("tiktoken is great!"), 6);
        assert_eq!(Vocabulary::O200k.count("お誕生日おめでとう"), 8);
        assert_eq!(Vocabulary::Cl100k.count("お誕生日おめでとう"), 9);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]
        /// Compares the counts with an independent implementation by another author.
        #[test]
        fn another_implementation_counts_the_same(text in "(\\PC|[ \n\t]|[a-z]{1,9}|[0-9]{1,5}){0,40}") {
            for vocabulary in Vocabulary::ALL {
                prop_assert_eq!(vocabulary.count(&text), count_with_tiktoken(vocabulary, &text));
            }
        }
    }

    #[tokio::test]
    async fn simultaneous_callers_share_one_vocabulary_load() {
        let first = (0..50).map(|_n| async {
            Vocabulary::Cl100k.load().await;
            assert!(Vocabulary::Cl100k.is_loaded());
            Vocabulary::Cl100k.count("hello world")
        });
        assert_eq!(futures::future::join_all(first).await, vec![2; 50]);
    }

    /// Other tokenizers take minutes for these texts, or crash.
    #[test]
    fn hostile_texts_are_counted_in_linear_time() {
        for piece in ["a", " ", "ä", "\n", "=-", "\u{300}"] {
            let text = piece.repeat(400_000 / piece.len());
            assert!(Vocabulary::O200k.count(&text) > 0);
        }
    }
}
