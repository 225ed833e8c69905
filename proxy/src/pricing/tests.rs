use super::*;
use crate::config::Config;

const BODY: &str =
    "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"hello world\"}]";

fn pricing(settings: &str) -> Pricing {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("proxy.toml");
    let head = "wallet_address = \"0x209693Bc6afc0C5328bA36FaF03C514EF312287C\"\n";
    std::fs::write(&file, format!("{head}{settings}")).unwrap();
    let config = Config::load(Some(&file), &|_none| None).unwrap();
    let terms = config.terms().unwrap();
    Pricing::new(config, terms)
}

fn quote(pricing: &Pricing, rest: &str) -> Result<Quote, Fault> {
    let resource = "http://here.test/v1/chat/completions".into();
    pricing.quote(&Bytes::from(format!("{BODY}{rest}}}")), &resource)
}

fn amount(pricing: &Pricing, rest: &str) -> u64 {
    quote(pricing, rest).unwrap().offers[0].amount.to::<u64>()
}

#[test]
fn the_price_covers_the_prompt_and_the_bound() {
    let pricing = pricing("");
    // Each token costs one unit: 9 for the prompt, 1024 for the answer.
    assert_eq!(amount(&pricing, ""), 9 + 1_024);
    assert_eq!(amount(&pricing, ",\"max_tokens\":1"), 10);
    assert_eq!(amount(&pricing, ",\"max_tokens\":100,\"n\":3"), 309);
    let quoted = quote(&pricing, "").unwrap();
    assert_eq!(quoted.estimate.usd, "0.001033");
    assert!(quoted.upstream_body.ends_with(b",\"max_completion_tokens\":1024}"));
    // The same body has the same price, and a body with a bound is forwarded unchanged.
    let rest = ",\"max_completion_tokens\":5";
    let bounded = quote(&pricing, rest).unwrap();
    assert_eq!(bounded, quote(&pricing, rest).unwrap());
    assert_eq!(bounded.upstream_body, format!("{BODY}{rest}}}"));
}

#[test]
fn models_in_the_table_have_their_own_prices_and_bounds() {
    let pricing = pricing(
        "[models.m]\ninput_per_1k = \"0.00015\"\noutput_per_1k = \"0.0006\"\nmax_completion_tokens = 500\n\
         [models.large]\ninput_per_1k = \"2\"\noutput_per_1k = \"8\"\ncompletion_tokens = 10\nimage_tokens = 765\n",
    );
    // 9 x 0.15 + 500 x 0.6, rounded up. The model's maximum of 500 limits the default bound.
    assert_eq!(amount(&pricing, ""), 302);
    assert_eq!(quote(&pricing, ",\"max_tokens\":501").unwrap_err().code, Code::TooManyTokens);
    let other = Bytes::from(BODY.replace("\"m\"", "\"x\"") + "}");
    assert_eq!(pricing.quote(&other, &"r".into()).unwrap_err().code, Code::ModelNotFound);
    let unnamed = Bytes::from(BODY.replace("\"model\":\"m\",", "") + "}");
    assert_eq!(pricing.quote(&unnamed, &"r".into()).unwrap_err().code, Code::ModelNotFound);
    let large = Bytes::from(BODY.replace("\"m\"", "\"large\"") + "}");
    assert_eq!(pricing.quote(&large, &"r".into()).unwrap().offers[0].amount.to::<u64>(), 98_000);
}

#[test]
fn a_request_without_a_model_uses_the_default_model() {
    let pricing = pricing(
        "default_model = \"m\"\n[models.m]\ninput_per_1k = \"1\"\noutput_per_1k = \"1\"\ncompletion_tokens = 1\n",
    );
    let unnamed = Bytes::from(BODY.replace("\"model\":\"m\",", "") + "}");
    let quoted = pricing.quote(&unnamed, &"r".into()).unwrap();
    assert_eq!(quoted.offers[0].amount.to::<u64>(), 10_000);
    assert!(quoted.upstream_body.ends_with(b",\"max_completion_tokens\":1,\"model\":\"m\"}"));
}

#[test]
fn oversized_requests_are_refused_and_every_network_is_offered() {
    let pricing = pricing("max_prompt_tokens = 8\nnetwork = [\"base\", \"eip155:4663\"]\n");
    assert_eq!(quote(&pricing, "").unwrap_err().code, Code::TooManyTokens);
    let pricing = self::pricing("network = [\"base\", \"eip155:4663\"]\n");
    let quoted = quote(&pricing, "").unwrap();
    let chains: Vec<u64> = quoted.offers.iter().map(|offer| offer.terms.network.chain.0).collect();
    assert_eq!(chains, [8453, 4663]);
    assert_eq!(quote(&pricing, ",\"max_tokens\":32769").unwrap_err().code, Code::TooManyTokens);
}

fn owed_record(body: &Bytes, model: Option<&str>, bound: Option<u64>) -> Record {
    Record {
        id: crate::book::PaymentId([1; 32]),
        body: Sha256::digest(body).into(),
        payment: [2; 32],
        taken_at_ms: 0,
        expires_at: 0,
        stage: crate::book::Stage::Owed,
        settlement: crate::book::Settlement::Requested,
        facilitator_request: "{}".to_owned(),
        model: model.map(str::to_owned),
        amount: "7".to_owned(),
        usd: "0.000007".to_owned(),
        network: 8453,
        asset: alloy_primitives::Address::ZERO,
        payer: alloy_primitives::Address::ZERO,
        usage: None,
        answer_stored: false,
        key: None,
        answer_tokens_max: bound,
    }
}

/// The bound, the model and the members that the settings allow have changed since the sale.
#[test]
fn an_owed_stream_uses_the_model_and_bound_that_were_paid() {
    let pricing = pricing(
        "completion_tokens = 5000\ndefault_model = \"other\"\nmax_prompt_tokens = 1\n\
         [models.other]\ninput_per_1k = \"1\"\noutput_per_1k = \"1\"\nmax_completion_tokens = 10\n",
    );
    let open =
        Bytes::from(BODY.replace("\"model\":\"m\",", "") + ",\"stream\":true,\"mirostat\":1}");
    assert_eq!(pricing.quote(&open, &"r".into()).unwrap_err().code, Code::UnsupportedParameter);
    let quoted = pricing.quote_owed(&open, &owed_record(&open, Some("m"), Some(77))).unwrap();
    let sent: serde_json::Value = serde_json::from_slice(&quoted.upstream_body).unwrap();
    assert_eq!((&sent["model"], &sent["max_completion_tokens"]), (&"m".into(), &77.into()));
    assert_eq!(
        (&sent["mirostat"], quoted.stream, quoted.is_model_in_table),
        (&1.into(), true, false)
    );
    assert_eq!((quoted.answer_tokens_max, quoted.estimate.prompt_tokens), (Some(77), 9));
    let digest: Digest = Sha256::digest(&open).into();
    assert_eq!((quoted.digest, quoted.estimate.model.as_deref()), (digest, Some("m")));
    let unnamed =
        pricing.quote_owed(&open, &owed_record(&open, None, Some(77))).unwrap().upstream_body;
    assert!(!unnamed.windows(7).any(|window| window == b"\"model\""), "none was paid for");
    // If the record has no bound, the body's bound counts, or else the default bound, limited to the model's maximum.
    let named = Bytes::from(format!("{BODY},\"max_tokens\":33,\"n\":2}}"));
    for (body, model, bound) in
        [(&named, Some("m"), 33), (&open, Some("m"), 5_000), (&open, Some("other"), 10)]
    {
        let quoted = pricing.quote_owed(body, &owed_record(body, model, None)).unwrap();
        assert_eq!(quoted.answer_tokens_max, Some(bound));
        let sent: serde_json::Value = serde_json::from_slice(&quoted.upstream_body).unwrap();
        assert_eq!(sent["max_completion_tokens"], bound);
        assert!(sent.get("max_tokens").is_none());
    }
    // An image counts as the number of tokens that its model sets, or as zero tokens.
    let image = "{\"type\":\"image_url\",\"image_url\":{\"url\":\"https://a.test/b\"}}";
    let seen =
        Bytes::from(format!("{{\"messages\":[{{\"role\":\"user\",\"content\":[{image}]}}]}}"));
    let counts = |pricing: &Pricing| {
        let quoted = pricing.quote_owed(&seen, &owed_record(&seen, Some("m"), Some(7))).unwrap();
        quoted.estimate.prompt_tokens
    };
    let table = "[models.m]\ninput_per_1k = \"1\"\noutput_per_1k = \"1\"\nimage_tokens = 765\n";
    assert_eq!((counts(&pricing), counts(&self::pricing(table))), (7, 7 + 765));
    // If no bound can be added to a body, it is not sent.
    let odd = Bytes::from_static(b"{\"messages\":[],\"stream\":true}");
    assert_eq!(
        pricing.quote_owed(&odd, &owed_record(&odd, None, Some(7))).unwrap_err().code,
        Code::InvalidRequest
    );
}
