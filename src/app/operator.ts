import { OwnExchange } from '../gateway/own-exchange.ts';
import { type ClientProfile, OPERATOR } from '../model/client-profile.ts';
import type { Endpoint, Exchange, Exchanges } from '../model/exchange.ts';
import { LATEST_STATEFUL, type Message } from '../model/message.ts';
import type { Outcome } from '../model/outcome.ts';
import type { Random } from '../model/random.ts';
import { fingerprint } from '../protocol/canonical.ts';
import { request } from '../protocol/compose.ts';

const NO_CAPABILITIES = '{}';

/**
 * Sends requests of callers that are no MCP clients: of the operator, an embedding program, its agents, and programs on the
 * public subjects. Servers cannot ask such a caller for anything.
 */
export class Operator {
  readonly profile: ClientProfile;
  readonly #exchanges: Exchanges;
  readonly #random: Random;
  readonly #exchange: string | null;

  /** `profile`: the caller. `exchange`: the id of all its calls; null for a random id for each. */
  constructor(exchanges: Exchanges, random: Random, profile: ClientProfile, exchange: string | null = null) {
    this.#exchange = exchange;
    this.#exchanges = exchanges;
    this.#random = random;
    this.profile = profile;
  }

  /** Sends one request. `emitted` gets the notifications of the call; `fresh` as in `Exchange`; `exchange.cancel` cancels it. */
  send(
    endpoint: Endpoint,
    method: string,
    paramsJson: string,
    emitted?: (notification: Message) => void,
    fresh = false,
  ): { readonly exchange: OwnExchange; readonly outcome: Promise<Outcome> } {
    const message = request(method, '1', paramsJson, 'stateful');
    const id = this.#exchange ?? `operator-${this.#random.hex(6)}`;
    const exchange = new OwnExchange(id, message, this.profile, emitted, fresh);
    return { exchange, outcome: this.#exchanges.run(exchange, endpoint) };
  }
}

/** Returns the profile of a caller without capabilities. `handle` names a conversation, which has its own connections. */
export function operatorProfile(info: string, principal = OPERATOR, handle: string | null = null): ClientProfile {
  return {
    principal,
    sessionId: null,
    revision: LATEST_STATEFUL,
    capabilities: NO_CAPABILITIES,
    fingerprint: fingerprint(NO_CAPABILITIES),
    info,
    logLevel: null,
    handle,
  };
}

/** Runs the calls of the embedding program and of the operator, and counts those in flight. */
export function countedCalls(exchanges: Exchanges): Exchanges & { readonly inFlight: number } {
  const calls = {
    inFlight: 0,
    async run(exchange: Exchange, endpoint: Endpoint): Promise<Outcome> {
      calls.inFlight++;
      try {
        return await exchanges.run(exchange, endpoint);
      } finally {
        calls.inFlight--;
      }
    },
  };
  return calls;
}
