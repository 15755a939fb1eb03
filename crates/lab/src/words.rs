//! Words that texts are made of. In: a tokenizer; out: those words that are one token each, so that a text of n words
//! has n tokens, and what an engine generated is tokenized again as it was generated.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use request::Prompt;
use tokens::{Context, EncodeError, Tokenizer};

/// Common English words, in the order of the alphabet.
const WORDS: &str = "
    able about above across act add after again age ago agree air all allow alone along already also always among
    amount and animal answer any appear apple area arm army around arrive art ask away baby back bad ball bank bar
    base be bear beat beautiful because become bed before began begin behind believe below best better between big
    bird black block blood blue board boat body book both bottom box boy branch bread break bridge bright bring
    brother brown build burn busy but buy call came camp can car care carry case cat catch cause cell center
    central century certain chair chance change charge check child choose church circle city claim class clean
    clear climb clock close cloud coast cold color column come common company compare complete consider contain
    continue control cook cool copy corn corner correct cost count country course cover create cross crowd cry
    current cut dance dark day dead deal deep degree depend describe desert design develop difference dinner
    direct discuss distance divide doctor dog door double doubt down draw dream dress drink drive drop dry during
    each early earth ease east easy eat edge effect egg eight either electric element else end enemy energy engine
    enough enter equal even evening event ever every exact example except expect experience explain eye face fact
    fair fall family famous far farm fast father favor fear feed feel feet field fight figure fill final find fine
    finger finish fire first fish fit five flat floor flow flower fly follow food foot force foreign forest form
    forward found four free fresh friend from front fruit full game garden gas gather gave general gentle get girl
    give glad glass go gold good got govern grand grass gray great green grew ground group grow guess guide gun
    hair half hand happen happy hard hat head hear heart heat heavy held help here high hill history hit hold hole
    home hope horse hot hour house how huge human hundred hunt hurry ice idea if imagine in inch include industry
    insect instrument interest iron island job join joy jump just keep key kill kind king knew know lady lake land
    language large last late laugh law lay lead learn least leave left leg length less let letter level lie life
    lift light like line list listen little live local log long look lost lot loud love low machine made main
    major make man many map mark market mass master match material matter may mean measure meat meet men metal
    method middle might mile milk million mind mine minute miss mix modern moment money month moon more morning
    most mother motion mountain mouth move much music must name nation nature near necessary neck need never new
    next night nine noise noon north nose note nothing notice number object ocean off offer office often oil old
    once one only open operate opposite order organ other out over own page paint pair paper part party pass past
    path pay people perhaps period person phrase pick picture piece place plain plan plane planet plant play
    please point poor port position possible pound power practice prepare present press pretty print problem
    process produce product proper property protect prove provide pull push put question quick quiet quite race
    radio rain raise ran range rate rather reach read ready real reason receive record red region remember repeat
    reply represent require rest result rich ride right ring rise river road rock roll room root rope rose round
    row rule run safe said sail salt same sand save say school science sea search season seat second section see
    seed seem select self sell send sense sentence separate serve set settle seven several shape share sharp sheet
    ship shoe shop short should shoulder show side sight sign silent silver similar simple since sing single
    sister sit six size skin sky sleep slow small smell smile snow so soft soil soldier solution some son song
    soon sound south space speak special speed spell spend spoke spot spread spring square stand star start state
    station stay steam steel step stone stood stop store story straight strange stream street strong student study
    subject such sudden sugar summer sun support sure surface surprise swim system table tail take talk tall teach
    team tell ten term test than thank that the then there these they thick thin thing think third this those
    thought thousand three through time tiny together told tone too took tool top total touch toward town track
    trade train travel tree triangle trip trouble truck true try tube turn twenty two type under unit until up use
    usual valley value vary very view village visit voice wait walk wall want war warm wash watch water wave way
    wear weather week weight well went were west what wheel when where which while white who whole why wide wife
    wild will wind window winter wish with woman wonder wood word work world write yard year yellow yes yet you
    young";

/// Fewer words than this make no text.
const LEAST: usize = 32;

/// Words with their tokens.
#[derive(Clone, Debug)]
pub struct Words {
    /// The words, each one token with a space before it.
    pub list: Arc<[&'static str]>,
    /// The tokens of ` word`, in the order of `list`.
    pub spaced: Arc<[u32]>,
    /// The tokens of those words that are one token without a space too: what a text can begin with.
    pub leading: Arc<[u32]>,
    pieces: HashMap<u32, String>,
}

/// Why a tokenizer gives no words.
#[derive(Debug, thiserror::Error)]
pub enum NoWords {
    /// It does not encode.
    #[error("the tokenizer does not encode plain words: {0}")]
    Encode(#[from] EncodeError),
    /// It has too few.
    #[error("the tokenizer has only {0} common English words that are one token each; at least {LEAST} are needed")]
    TooFew(usize),
}

impl Words {
    /// Asks the tokenizer for each word; a few milliseconds of CPU work.
    pub fn of(tokenizer: &Tokenizer) -> Result<Words, NoWords> {
        let all: Vec<&str> = WORDS.split_whitespace().collect();
        let spaced = singles(tokenizer, all.iter().map(|word| Cow::Owned(format!(" {word}"))).collect())?;
        let leading = singles(tokenizer, all.iter().map(|word| Cow::Borrowed(*word)).collect())?;
        let kept: Vec<(&str, u32)> = all.iter().zip(spaced).filter_map(|(word, token)| Some((*word, token?))).collect();
        let begins: Vec<(&str, u32)> =
            all.iter().zip(leading).filter_map(|(word, token)| Some((*word, token?))).collect();
        if kept.len().min(begins.len()) < LEAST {
            return Err(NoWords::TooFew(kept.len().min(begins.len())));
        }
        let mut pieces: HashMap<u32, String> =
            begins.iter().map(|(word, token)| (*token, (*word).to_owned())).collect();
        pieces.extend(kept.iter().map(|(word, token)| (*token, format!(" {word}"))));
        Ok(Words {
            list: kept.iter().map(|(word, _)| *word).collect(),
            spaced: kept.iter().map(|(_, token)| *token).collect(),
            leading: begins.iter().map(|(_, token)| *token).collect(),
            pieces,
        })
    }

    /// The text of a token of these words; empty for any other.
    pub fn piece(&self, token: u32) -> &str {
        self.pieces.get(&token).map_or("", String::as_str)
    }
}

/// The token of each text that is one token.
fn singles(tokenizer: &Tokenizer, texts: Vec<Cow<'_, str>>) -> Result<Vec<Option<u32>>, EncodeError> {
    let prompt = Prompt::Texts { texts, add_special_tokens: false };
    let encoded = tokenizer.encode(&prompt, &Context::at(UNIX_EPOCH))?;
    let single = |tokens: Vec<u32>| match tokens[..] {
        [token] => Some(token),
        _ => None,
    };
    Ok(encoded.prompts.into_iter().map(single).collect())
}
