import type { Core } from '../../gateway/gateway.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { Message } from '../../model/message.ts';
import { answer, failure, type Outcome } from '../../model/outcome.ts';
import type { Fingerprints } from '../endpoints/fingerprints.ts';
import { initializeAnswer } from '../endpoints/handshake-answer.ts';
import { ClientExchange } from '../session/client-exchange.ts';
import type { ClientSession } from '../session/client-session.ts';
import { readInitialize } from '../session/initialize.ts';
import { type SessionIntake, settle } from '../session/session-intake.ts';
import type { SharedChannel } from '../session/shared-channel.ts';

interface SingleWireDeps {
  readonly core: Core;
  readonly intake: SessionIntake;
  readonly fingerprints: Fingerprints;
}

/** What became of a message: taken, one request too many, or an answer to nothing. */
type WireFate = 'taken' | 'full' | 'unknown';

/**
 * Sessions whose client has one wire for everything: they begin when the wire does, and learn who the client is from
 * its `initialize`.
 */
export class SingleWire {
  readonly #deps: SingleWireDeps;

  constructor(deps: SingleWireDeps) {
    this.#deps = deps;
  }

  take(session: ClientSession, channel: SharedChannel, message: Message): WireFate {
    const { intake } = this.#deps;
    switch (message.kind) {
      case 'request':
        if (intake.full(session)) return 'full';
        if (message.method === 'initialize' && !session.introduced) this.#introduce(session, channel, message);
        else intake.request(session, message, channel);
        return 'taken';
      case 'notification':
        intake.notification(session, message);
        return 'taken';
      default:
        return intake.answer(session, message) === 'unknown' ? 'unknown' : 'taken';
    }
  }

  #introduce(session: ClientSession, channel: SharedChannel, request: Message): void {
    const introduction = readInitialize(request);
    if (!(introduction instanceof GatewayError)) {
      session.introduce(introduction, this.#deps.fingerprints.of(introduction.capabilities));
    }
    const exchange = new ClientExchange(request, session.client, channel);
    session.exchanges.add(exchange);
    if (introduction instanceof GatewayError) exchange.finish(failure(introduction));
    else void settle(exchange, this.#handshake(session, request));
  }

  async #handshake(session: ClientSession, request: Message): Promise<Outcome> {
    const message = await initializeAnswer(this.#deps.core, request, session.endpoint, session.client);
    // A client may try again on the same wire when the server behind it was not there yet.
    if (message.kind === 'error') session.introduced = false;
    return answer(message);
  }
}
