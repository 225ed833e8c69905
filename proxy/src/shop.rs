//! What is sold, and for how much: from a body to a price, and nothing else counts.

use std::sync::Arc;

use bursar_outbound::Bytes;
use sha2::{Digest as _, Sha256};

use crate::book::{Digest, Record};
use crate::chat::Chat;
use crate::config::{Config, Model};
use crate::fault::{Code, Fault};
use crate::offer::{Estimate, Offer, Terms};
use crate::price::Tokens;
use crate::tokens::Vocabulary;

/// The price list.
#[derive(Debug)]
pub struct Shop {
    config: Config,
    terms: Vec<Arc<Terms>>,
}

/// A body with its price.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quote {
    pub offers: Vec<Offer>,
    pub estimate: Estimate,
    pub stream: bool,
    /// The bound on one answer; `None` where nothing is sent upstream.
    pub bound: Option<u64>,
    /// What is sent upstream: never unbounded.
    pub forward: Bytes,
    /// Of the body as it came.
    pub digest: Digest,
    pub vocabulary: Vocabulary,
    /// Whether the model stands in the table: others are a stranger's word, and no label of metrics.
    pub listed: bool,
}

impl Shop {
    pub fn new(config: Config, terms: Vec<Arc<Terms>>) -> Self {
        Self { config, terms }
    }

    pub fn config(&self) -> &Config {
        &self.config
    }

    pub fn terms(&self) -> &[Arc<Terms>] {
        &self.terms
    }

    /// Reads a body. Cheap: nothing is counted yet.
    ///
    /// # Errors
    /// [`Fault`]: it is not sold.
    pub fn read(&self, body: &Bytes) -> Result<Reading, Fault> {
        let chat = Chat::parse(body, &self.config.extra_fields)?;
        let name = chat.model.as_deref().or(self.config.default_model.as_deref());
        let model = self.config.model(name);
        let model = model.ok_or_else(|| Fault::of(Code::ModelNotFound).about("model"))?;
        Ok(Reading { chat, model })
    }

    /// The price of a body.
    ///
    /// # Errors
    /// [`Fault`]: it is not sold.
    pub fn quote(&self, body: &Bytes, resource: &Arc<str>) -> Result<Quote, Fault> {
        self.price(self.read(body)?, body, resource)
    }

    /// The price of a body that was read.
    ///
    /// # Errors
    /// [`Fault`]: it is not sold.
    pub fn price(
        &self,
        reading: Reading,
        body: &Bytes,
        resource: &Arc<str>,
    ) -> Result<Quote, Fault> {
        let config = &self.config;
        let Reading { chat, model } = reading;
        let name = chat.model.as_deref().or(config.default_model.as_deref());
        let most = self.highest_bound(Some(&model));
        let bound = chat.bound.unwrap_or_else(|| self.usual_bound(Some(&model)));
        if bound > most {
            let why = format!("an answer can have at most {most} tokens");
            return Err(Fault::of(Code::TooManyTokens).because(why).about("max_completion_tokens"));
        }
        let counted = chat.count(model.vocabulary, model.image_tokens)?;
        if counted.prompt > config.max_prompt_tokens {
            let why = format!("a prompt can have at most {} tokens", config.max_prompt_tokens);
            return Err(Fault::of(Code::TooManyTokens).because(why).about("messages"));
        }
        let completion = bound.saturating_add(counted.predicted).saturating_mul(chat.choices);
        let tokens = Tokens { prompt: counted.prompt, completion };
        let too_much = || Fault::of(Code::TooManyTokens).because("the amount is too large");
        let mut offers = Vec::with_capacity(self.terms.len());
        for terms in &self.terms {
            let amount = model.rates.amount(tokens, terms.decimals).ok_or_else(too_much)?;
            offers.push(Offer { terms: Arc::clone(terms), amount, resource: Arc::clone(resource) });
        }
        let forward = chat.completed((config.bound_field, bound), name);
        Ok(Quote {
            estimate: Estimate {
                model: name.map(str::to_owned),
                prompt_tokens: tokens.prompt,
                completion_tokens_max: completion,
                usd: offers.first().map(Offer::usd).unwrap_or_default(),
            },
            offers,
            stream: chat.stream,
            bound: Some(bound),
            forward: forward.map_or_else(|| body.clone(), Bytes::from),
            digest: Sha256::digest(body).into(),
            vocabulary: model.vocabulary,
            listed: name.is_some_and(|name| config.models.contains_key(name)),
        })
    }

    /// A stream that is owed, as it was paid: with the model and the bound of then, whatever is sold now.
    ///
    /// # Errors
    /// [`Fault`]: this version cannot read the body, so it cannot be bounded.
    pub fn owed(&self, body: &Bytes, record: &Record) -> Result<Quote, Fault> {
        let config = &self.config;
        let chat = Chat::sold(body)?;
        let name = record.model.as_deref();
        let vocabulary = self.vocabulary_of(record);
        let model = config.model(name);
        // Rows from before it was kept do not tell the bound. Where the body names none it was the usual one.
        let usual = || self.usual_bound(model.as_ref());
        let bound = record.bound.or(chat.bound).unwrap_or_else(usual);
        // Only metrics need it, and only where the upstream tells none: images may have no count by now.
        let image = model.as_ref().and_then(|model| model.image_tokens).unwrap_or(0);
        let counted = chat.count(vocabulary, Some(image));
        let forward = chat.completed((config.bound_field, bound), name);
        Ok(Quote {
            estimate: Estimate {
                model: record.model.clone(),
                prompt_tokens: counted.map_or(0, |counted| counted.prompt),
                completion_tokens_max: bound.saturating_mul(chat.choices),
                usd: record.usd.clone(),
            },
            offers: Vec::new(),
            stream: chat.stream,
            bound: Some(bound),
            forward: forward.map_or_else(|| body.clone(), Bytes::from),
            digest: record.body,
            vocabulary,
            listed: name.is_some_and(|name| config.models.contains_key(name)),
        })
    }

    fn highest_bound(&self, model: Option<&Model>) -> u64 {
        let own = model.and_then(|model| model.max_completion_tokens);
        own.unwrap_or(self.config.max_completion_tokens)
    }

    /// The bound where a body names none.
    fn usual_bound(&self, model: Option<&Model>) -> u64 {
        let own = model.and_then(|model| model.completion_tokens);
        own.unwrap_or(self.config.completion_tokens).min(self.highest_bound(model))
    }

    /// What the tokens of a sale are counted by, as far as its model is known now.
    pub fn vocabulary_of(&self, record: &Record) -> Vocabulary {
        let model = self.config.model(record.model.as_deref());
        model.map_or_else(Vocabulary::default, |model| model.vocabulary)
    }
}

/// A body that was read, and what is known of its model.
#[derive(Debug)]
pub struct Reading {
    chat: Chat,
    model: Model,
}

impl Reading {
    /// What its tokens are counted by.
    pub fn vocabulary(&self) -> Vocabulary {
        self.model.vocabulary
    }
}

impl Quote {
    /// A body without a price: enough to find a kept answer, and to send the body as it came.
    pub fn bare(body: &Bytes) -> Self {
        Self {
            offers: Vec::new(),
            estimate: Estimate {
                model: None,
                prompt_tokens: 0,
                completion_tokens_max: 0,
                usd: String::new(),
            },
            stream: false,
            bound: None,
            forward: body.clone(),
            digest: Sha256::digest(body).into(),
            vocabulary: Vocabulary::default(),
            listed: false,
        }
    }
}

#[cfg(test)]
mod tests;
