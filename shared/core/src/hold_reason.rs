//! Why a request is held for the operator.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

crate::code_table! {
    /// The reason why a request needs the operator.
    #[derive(Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum HoldReason;
    ManualOnly "manual_only" "the policy requires approval of every request of this kind";
    AboveThreshold "above_threshold" "at or over the policy's automatic limit";
    ResourceOutsideAllowList "resource_outside_allow_list" "the policy allows the agent's URL, but not every URL that the merchant names";
    LongValidity "long_validity" "it would stay valid for longer than payments.max_validity";
    DomainContradicted "domain_contradicted" "the offer's token domain differs from Bursar's, and the chain did not confirm Bursar's";
    JournalUntrusted "journal_untrusted" "the journal did not match the wallet at unlock (see audit verify)";
    Unpriced "unpriced" "no pool gave a price for this token: an approval asks again, and needs a price";
    // This reason also covers a token that accepts no authorizations.
    DomainUnconfirmed "domain_unconfirmed" "the token did not confirm the offer's name and version (EIP-712), so nothing can be signed";
    // This reason also covers a token that no pool buys.
    SellsForLess "sells_for_less" "selling this token brings at least 5 % less than buying it, so its price is uncertain";
    // This reason also covers a market where no pool can deliver ten times the amount.
    ThinMarket "thin_market" "ten times the amount would change the price by 1 % or more, so it is uncertain";
    OffAverage "off_average" "the price is at least 3 % off its ten-minute average, so it is uncertain";
    ClockOff "clock_off" "this machine's clock is over ten minutes off the chain's: correct it first";
    NoValue "no_value" "the value of this trade is not known";
    // The price impact shows how much worse the quote is than the pool's own rate.
    ImpactUnknown "impact_unknown" "the price impact of this trade is not known";
    ImpactAboveCeiling "impact_above_ceiling" "the price impact is above the policy's maximum";
    // "Much more" means a difference over the policy's maximum price impact.
    BetterRoute "better_route" "another route pays much more than the pool of this trade";
    // This reason also covers an unlisted hook that may choose the fee.
    HookedPool "hooked_pool" "a hook of this pool that the policy does not list (--trade-hooks) runs in the swap";
    UnlistedToken "unlisted_token" "a token is not on the policy's list (--trade-tokens)";
    UnfairValue "unfair_value" "the output is worth less than the input, by prices from outside the pool";
    OutputUnpriced "output_unpriced" "the price of ETH, and so the worth of the output, is not known";
    EffectsUnproven "effects_unproven" "no node could simulate the whole plan";
    OperationsSpent "operations_spent" "the agent's lending operations of today are used up";
    UncuratedVenue "uncurated_venue" "the first supply to a venue that is not curated by a trusted party";
    SharePriceFell "share_price_fell" "the share price is below the highest that was seen: the venue lost money";
    ThinLiquidity "thin_liquidity" "the venue has less free money than ten times the deposit";
    ExitUnfunded "exit_unfunded" "too little ETH would be left to withdraw the money again";
    UnattendedLimit "unattended_limit" "over unattended.daily, the limit while no person has opened the wallet since the engine started";
    // Only cards have this reason: such a request is not held.
    Device "device" "the key of the paying address is in a Ledger";
    // The number is `limits::FAILED_PLANS_PER_DAY_MAX`.
    FailedPlans "failed_plans" "20 trades and supplies of this agent paid for gas today (UTC) and failed";
}
