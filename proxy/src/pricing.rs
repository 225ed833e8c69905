//! Prices requests. The price depends only on the body and the settings.

use std::sync::Arc;

use bursar_outbound::Bytes;
use sha2::{Digest as _, Sha256};

use crate::book::{Digest, Record};
use crate::chat::Chat;
use crate::config::{Config, Model};
use crate::fault::{Code, Fault};
use crate::offer::{Estimate, Offer, Terms};
use crate::price::SaleTokens;
use crate::tokens::Vocabulary;

/// The settings and terms that determine prices.
#[derive(Debug)]
pub struct Pricing {
    config: Config,
    terms: Vec<Arc<Terms>>,
}

/// A priced body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quote {
    pub offers: Vec<Offer>,
    pub estimate: Estimate,
    pub stream: bool,
    /// Bound on one answer, in tokens.
    ///
    /// `None` if no request is sent upstream.
    pub answer_tokens_max: Option<u64>,
    /// The body for the upstream.
    ///
    /// In a priced quote it always contains a bound.
    pub upstream_body: Bytes,
    /// Digest of the original body.
    pub digest: Digest,
    pub vocabulary: Vocabulary,
    /// Whether the model is in the table.
    ///
    /// Other names are chosen by customers, so metrics do not use them as labels.
    pub is_model_in_table: bool,
}

impl Pricing {
    /// Creates the pricing.
    ///
    /// `terms` has one entry per network.
    pub fn new(config: Config, terms: Vec<Arc<Terms>>) -> Self {
        Self { config, terms }
    }

    /// Returns the settings.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the terms of each network.
    pub fn terms(&self) -> &[Arc<Terms>] {
        &self.terms
    }

    /// Parses a body and finds its model.
    ///
    /// This is cheap, because no tokens are counted yet.
    ///
    /// # Errors
    /// [`Fault`]: the request is invalid, or its model is not sold.
    pub fn parse(&self, body: &Bytes) -> Result<ParsedRequest, Fault> {
        let chat = Chat::parse(body, &self.config.extra_fields)?;
        let name = chat.model.as_deref().or(self.config.default_model.as_deref());
        let model = self.config.model(name);
        let model = model.ok_or_else(|| Fault::of(Code::ModelNotFound).with_param("model"))?;
        Ok(ParsedRequest { chat, model })
    }

    /// Prices a body.
    ///
    /// # Errors
    /// [`Fault`]: the request is invalid, not sold, or too large.
    pub fn quote(&self, body: &Bytes, resource: &Arc<str>) -> Result<Quote, Fault> {
        self.price(self.parse(body)?, body, resource)
    }

    /// Prices a parsed body.
    ///
    /// # Errors
    /// [`Fault`]: the messages are malformed or have content without a price, or the request is too large.
    pub fn price(
        &self,
        request: ParsedRequest,
        body: &Bytes,
        resource: &Arc<str>,
    ) -> Result<Quote, Fault> {
        let config = &self.config;
        let ParsedRequest { chat, model } = request;
        let name = chat.model.as_deref().or(config.default_model.as_deref());
        let max_bound = self.answer_tokens_limit(Some(&model));
        let bound =
            chat.answer_tokens_max.unwrap_or_else(|| self.default_answer_tokens_max(Some(&model)));
        if bound > max_bound {
            let why = format!("an answer can have at most {max_bound} tokens");
            return Err(Fault::of(Code::TooManyTokens)
                .with_detail(why)
                .with_param("max_completion_tokens"));
        }
        let counted = chat.count(model.vocabulary, model.image_tokens)?;
        if counted.prompt > config.max_prompt_tokens {
            let why = format!("a prompt can have at most {} tokens", config.max_prompt_tokens);
            return Err(Fault::of(Code::TooManyTokens).with_detail(why).with_param("messages"));
        }
        let completion = bound.saturating_add(counted.predicted).saturating_mul(chat.choices);
        let tokens = SaleTokens { prompt: counted.prompt, completion };
        let too_much = || Fault::of(Code::TooManyTokens).with_detail("the amount is too large");
        let mut offers = Vec::with_capacity(self.terms.len());
        for terms in &self.terms {
            let amount = model.rates.amount(tokens, terms.decimals).ok_or_else(too_much)?;
            offers.push(Offer { terms: Arc::clone(terms), amount, resource: Arc::clone(resource) });
        }
        let forward = chat.forward_body((config.bound_field, bound), name);
        Ok(Quote {
            estimate: Estimate {
                model: name.map(str::to_owned),
                prompt_tokens: tokens.prompt,
                completion_tokens_max: completion,
                usd: offers.first().map(Offer::usd).unwrap_or_default(),
            },
            offers,
            stream: chat.stream,
            answer_tokens_max: Some(bound),
            upstream_body: forward.map_or_else(|| body.clone(), Bytes::from),
            digest: Sha256::digest(body).into(),
            vocabulary: model.vocabulary,
            is_model_in_table: name.is_some_and(|name| config.models.contains_key(name)),
        })
    }

    /// Returns the quote of an owed stream at the terms that were paid.
    ///
    /// It has the model and the bound that were paid, regardless of what is sold now.
    ///
    /// # Errors
    /// [`Fault`]: this version cannot parse the body, so the answer cannot be bounded.
    pub fn quote_owed(&self, body: &Bytes, record: &Record) -> Result<Quote, Fault> {
        let config = &self.config;
        let chat = Chat::parse_sold(body)?;
        let name = record.model.as_deref();
        let vocabulary = self.vocabulary_of(record);
        let model = config.model(name);
        // Old rows have no bound. If the body sets none either, the customer paid for the default bound.
        let default = || self.default_answer_tokens_max(model.as_ref());
        let bound = record.answer_tokens_max.or(chat.answer_tokens_max).unwrap_or_else(default);
        // The count is needed only if the upstream reports no usage. Images may no longer have a price.
        let image = model.as_ref().and_then(|model| model.image_tokens).unwrap_or(0);
        let counted = chat.count(vocabulary, Some(image));
        let forward = chat.forward_body((config.bound_field, bound), name);
        Ok(Quote {
            estimate: Estimate {
                model: record.model.clone(),
                prompt_tokens: counted.map_or(0, |counted| counted.prompt),
                completion_tokens_max: bound.saturating_mul(chat.choices),
                usd: record.usd.clone(),
            },
            offers: Vec::new(),
            stream: chat.stream,
            answer_tokens_max: Some(bound),
            upstream_body: forward.map_or_else(|| body.clone(), Bytes::from),
            digest: record.body,
            vocabulary,
            is_model_in_table: name.is_some_and(|name| config.models.contains_key(name)),
        })
    }

    fn answer_tokens_limit(&self, model: Option<&Model>) -> u64 {
        let own = model.and_then(|model| model.max_completion_tokens);
        own.unwrap_or(self.config.max_completion_tokens)
    }

    /// Returns the bound for a body that sets none.
    fn default_answer_tokens_max(&self, model: Option<&Model>) -> u64 {
        let own = model.and_then(|model| model.completion_tokens);
        own.unwrap_or(self.config.completion_tokens).min(self.answer_tokens_limit(model))
    }

    /// Returns the vocabulary of a sale's model, or the default if the model is no longer sold.
    pub fn vocabulary_of(&self, record: &Record) -> Vocabulary {
        let model = self.config.model(record.model.as_deref());
        model.map_or_else(Vocabulary::default, |model| model.vocabulary)
    }
}

/// A parsed body and the settings of its model.
#[derive(Debug)]
pub struct ParsedRequest {
    chat: Chat,
    model: Model,
}

impl ParsedRequest {
    /// Returns the vocabulary of the request's model.
    pub fn vocabulary(&self) -> Vocabulary {
        self.model.vocabulary
    }
}

impl Quote {
    /// Returns a quote without a price: enough to find a stored answer.
    pub fn unpriced(body: &Bytes) -> Self {
        Self {
            offers: Vec::new(),
            estimate: Estimate {
                model: None,
                prompt_tokens: 0,
                completion_tokens_max: 0,
                usd: String::new(),
            },
            stream: false,
            answer_tokens_max: None,
            upstream_body: body.clone(),
            digest: Sha256::digest(body).into(),
            vocabulary: Vocabulary::default(),
            is_model_in_table: false,
        }
    }
}

#[cfg(test)]
mod tests;
