//! `seed …` and `address …`.

use std::sync::Arc;

use bursar_core::answers::{Answer, SecretField, SeedAnswer};
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::grammar::{AddressOrder, BalancesOrder, SeedOrder, Words};
use bursar_core::ids::{Name, SeedId};
use bursar_core::wire::SecretPrompt;
use bursar_domain::Action;
use bursar_domain::event::AddressAdded;
use bursar_domain::wallets::{Backing, PayingAddress, Wallet};
use zeroize::Zeroizing;

use super::{Done, act, describe};
use crate::control::Dialogue;
use crate::engine::{Shared, blocking};
use crate::vault::seed::{Seed, WordCount};

pub(super) async fn seed(
    engine: &Arc<Shared>,
    order: SeedOrder,
    dialogue: &mut Dialogue,
) -> Result<Done, Fault> {
    let known = wallet(engine)?;
    match order {
        SeedOrder::List => {
            let seeds = known.seeds.iter().map(|(id, seed)| describe::seed(*id, seed)).collect();
            Ok(Answer::Seeds { seeds }.into())
        }
        SeedOrder::Words { seed: id } => {
            let known = known.seeds.get(&id).copied().ok_or_else(|| no_seed(id))?;
            super::prove_operator(engine, dialogue).await?;
            let vault = Arc::clone(&engine.vault);
            let phrase = blocking(move || vault.seed_phrase(id)).await??;
            dialogue.hand_out(Zeroizing::new(phrase.as_bytes().to_vec())).await?;
            Ok(Done {
                answer: Answer::Seed(describe::seed(id, &known)),
                warnings: Vec::new(),
                secret: Some(SecretField::Phrase),
            })
        }
        SeedOrder::Create { words } => {
            let count = match words {
                Words::Twelve => WordCount::Twelve,
                Words::TwentyFour => WordCount::TwentyFour,
            };
            let entropy = Zeroizing::new(engine.random::<32>()?);
            let made = Seed::generate(count, &entropy);
            let phrase = made.phrase().map_err(internal)?;
            let answer = add(engine, made).await?;
            dialogue.hand_out(Zeroizing::new(phrase.as_bytes().to_vec())).await?;
            Ok(Done {
                answer: Answer::Seed(answer),
                warnings: Vec::new(),
                secret: Some(SecretField::Phrase),
            })
        }
        SeedOrder::Import => {
            if !engine.vault.is_unlocked() {
                return Err(Fault::new(Code::WalletLocked));
            }
            let phrase = dialogue.secret(SecretPrompt::SeedPhrase).await?;
            let read = Seed::from_phrase(&phrase)
                .map_err(|error| Fault::because(Code::BadInput, error.to_string()))?;
            Ok(Answer::Seed(add(engine, read).await?).into())
        }
    }
}

/// Wallet file first, then the event.
async fn add(engine: &Arc<Shared>, made: Seed) -> Result<SeedAnswer, Fault> {
    let _one_at_a_time = engine.wallet_changes.lock().await;
    if !engine.vault.is_unlocked() {
        return Err(Fault::new(Code::WalletLocked));
    }
    super::needs_trust(engine)?;
    let id = wallet(engine)?.next_seed();
    let words = u8::try_from(made.word_count()).map_err(internal)?;
    let vault = Arc::clone(&engine.vault);
    blocking(move || vault.add_seed(id, made)).await??;
    act(engine, Action::AddSeed { id, words }).await?;
    let added = wallet(engine)?.seeds.get(&id).copied();
    added.map(|seed| describe::seed(id, &seed)).ok_or(Fault::new(Code::InternalError))
}

pub(super) async fn address(
    engine: &Arc<Shared>,
    order: AddressOrder,
    dialogue: &mut Dialogue,
) -> Result<Done, Fault> {
    match order {
        AddressOrder::List => {
            let known = wallet(engine)?;
            let addresses = known.addresses.values().map(|address| describe::address(address));
            Ok(Answer::Addresses { addresses: addresses.collect() }.into())
        }
        AddressOrder::Rename { label, to } => {
            act(engine, Action::RenameAddress { from: label, to: to.clone() }).await?;
            show(engine, &to)
        }
        AddressOrder::Delete { label } => delete(engine, &label, dialogue).await,
        AddressOrder::Export { label } => export(engine, &label, dialogue).await,
        AddressOrder::Balance { label, network } => {
            let order = BalancesOrder { address: Some(label), network };
            super::balances::run(engine, order).await
        }
        AddressOrder::Send(order) => super::sends::send(engine, &order, dialogue).await,
        AddressOrder::Sends => super::sends::list(engine),
        AddressOrder::Cancel { id } => super::sends::cancel(engine, &id).await,
        AddressOrder::Create { label, index, description, seed } => {
            create(engine, &label, index, description, seed).await
        }
    }
}

async fn create(
    engine: &Arc<Shared>,
    label: &Name,
    index: u32,
    description: String,
    seed: Option<SeedId>,
) -> Result<Done, Fault> {
    let _one_at_a_time = engine.wallet_changes.lock().await;
    let id = which_seed(&*wallet(engine)?, seed)?;
    if description.chars().count() > 200 || description.chars().any(char::is_control) {
        return Err(Fault::because(
            Code::BadInput,
            "A description has at most 200 characters, and no control characters.",
        ));
    }
    let vault = Arc::clone(&engine.vault);
    let (path, address) = blocking(move || vault.derive(id, index)).await??;
    let added = AddressAdded {
        label: label.clone(),
        description,
        index,
        backing: Backing::Seed(id),
        path: path.clone(),
        address,
    };
    act(engine, Action::AddAddress(Box::new(added))).await?;
    let vault = Arc::clone(&engine.vault);
    blocking(move || vault.use_address(id, &path)).await??;
    show(engine, label)
}

fn show(engine: &Shared, label: &Name) -> Result<Done, Fault> {
    let known = wallet(engine)?;
    let known = known.address(label).ok_or(Fault::new(Code::InternalError))?;
    Ok(Answer::Address(describe::address(known)).into())
}

/// The address goes on to exist, with what lies there: its seed and path lead to it again.
async fn delete(
    engine: &Arc<Shared>,
    label: &Name,
    dialogue: &mut Dialogue,
) -> Result<Done, Fault> {
    let known = wallet(engine)?.address(label).cloned();
    if let Some(known) = &known {
        let Backing::Seed(seed) = known.backing;
        let lines = vec![
            format!("{} ({})", known.address.to_checksum(None), known.label),
            format!(
                "Its money stays there; `address create <label> {}` with the seed {seed} restores \
                 it.",
                known.index
            ),
        ];
        super::agree(dialogue, lines, "Remove it?").await?;
    }
    act(engine, Action::DeleteAddress { label: label.clone() }).await?;
    let name = known.map_or_else(|| label.clone(), |known| known.label.clone());
    Ok(Answer::Deleted { name: name.as_str().to_owned() }.into())
}

/// Hands out the private key, after the password.
async fn export(
    engine: &Arc<Shared>,
    label: &Name,
    dialogue: &mut Dialogue,
) -> Result<Done, Fault> {
    let known = Arc::clone(labelled(&*wallet(engine)?, label)?);
    super::prove_operator(engine, dialogue).await?;
    let Backing::Seed(seed) = known.backing;
    let (vault, path) = (Arc::clone(&engine.vault), known.path.clone());
    let key = blocking(move || vault.private_key(seed, &path)).await??;
    dialogue.hand_out(Zeroizing::new(key.as_bytes().to_vec())).await?;
    Ok(Done {
        answer: Answer::Address(describe::address(&known)),
        warnings: Vec::new(),
        secret: Some(SecretField::AddressKey),
    })
}

/// The address of a label.
pub(super) fn labelled<'a>(
    wallet: &'a Wallet,
    label: &Name,
) -> Result<&'a Arc<PayingAddress>, Fault> {
    wallet.address(label).ok_or_else(|| {
        let why = format!("There is no address {label}: see `address list`.");
        Fault::because(Code::NothingFound, why)
    })
}

/// The only seed, or the named one.
fn which_seed(wallet: &Wallet, named: Option<SeedId>) -> Result<SeedId, Fault> {
    let all: Vec<SeedId> = wallet.seeds.keys().copied().collect();
    match (named, all.as_slice()) {
        (Some(id), _) if wallet.seeds.contains_key(&id) => Ok(id),
        (Some(id), _) => Err(no_seed(id)),
        (None, [only]) => Ok(*only),
        (None, []) => Err(Fault::because(
            Code::NothingFound,
            "There is no seed yet: run `bursar seed create` or `bursar seed import`.",
        )),
        (None, several) => {
            let names: Vec<String> = several.iter().map(ToString::to_string).collect();
            Err(Fault::because(
                Code::Ambiguous,
                format!("There are several seeds ({}): choose one with --seed.", names.join(", ")),
            ))
        }
    }
}

fn no_seed(id: SeedId) -> Fault {
    Fault::because(Code::NothingFound, format!("There is no seed {id}: see `seed list`."))
}

fn wallet(engine: &Shared) -> Result<Arc<Wallet>, Fault> {
    let known = engine.core.view().state.wallet.clone();
    known.ok_or_else(|| super::wallet::no_wallet(engine))
}

fn internal(error: impl std::fmt::Display) -> Fault {
    Fault::new(Code::InternalError).with_detail(error)
}
