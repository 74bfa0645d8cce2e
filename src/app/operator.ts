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
 * The person at the machine, as a caller: through the control API, a command or an embedding program. May use every
 * server, and cannot be asked anything.
 */
export class Operator {
  readonly profile: ClientProfile;
  readonly #exchanges: Exchanges;
  readonly #random: Random;
  readonly #exchange: string | null;

  /** `profile`: as whom it calls. `exchange`: the id of its calls, where that says something. */
  constructor(exchanges: Exchanges, random: Random, profile: ClientProfile, exchange: string | null = null) {
    this.#exchange = exchange;
    this.#exchanges = exchanges;
    this.#random = random;
    this.profile = profile;
  }

  /**
   * Sends one request to an endpoint. `emitted` gets what the server says meanwhile. `cancel` of the returned exchange calls
   * it off.
   */
  send(
    endpoint: Endpoint,
    method: string,
    paramsJson: string,
    emitted?: (notification: Message) => void,
  ): { readonly exchange: OwnExchange; readonly outcome: Promise<Outcome> } {
    const message = request(method, '1', paramsJson, 'stateful');
    const id = this.#exchange ?? `operator-${this.#random.hex(6)}`;
    const exchange = new OwnExchange(id, message, this.profile, emitted);
    return { exchange, outcome: this.#exchanges.run(exchange, endpoint) };
  }
}

/** A caller without capabilities. `handle`: which of its conversations this is; each has connections of its own. */
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

/** The way of calls that no client has sent: of the program around the gateway and of the operator. Counts what is under way. */
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
