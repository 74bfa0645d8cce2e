import type { Principal } from '../../model/client-profile.ts';
import type { Clock } from '../../model/clock.ts';
import { foreignState, GatewayError } from '../../model/gateway-error.ts';
import type { Message } from '../../model/message.ts';
import { answer, type Outcome } from '../../model/outcome.ts';
import type { Sealing } from '../../model/sealing.ts';
import { bodyField } from '../../protocol/body.ts';
import { stringValue, text } from '../../protocol/fields.ts';
import { spliceMessage } from '../../protocol/splice.ts';
import { inputOf, mayRequireInput } from '../../protocol/stateless/input-required.ts';
import { resultType } from '../../protocol/stateless/to-stateless.ts';
import { requestDigest } from './request-digest.ts';

/** The prefix of every state that was sealed here. */
const MARK = 'trunkline-input.';
/** How long a client may take. The server's own limit applies too; this one only bounds the validity. */
const TTL_MS = 60 * 60_000;

/**
 * Seals the `requestState` of stateless servers for stateless clients, bound to server, caller and request, and restores it
 * byte for byte for the server. A state may be used again: its server decides whether that is valid.
 */
export class InputStates {
  readonly #sealing: Sealing;
  readonly #clock: Pick<Clock, 'wall'>;

  constructor(sealing: Sealing, clock: Pick<Clock, 'wall'>) {
    this.#sealing = sealing;
    this.#clock = clock;
  }

  /** The client's request with the server's own state; the same request if it has none. */
  inward(server: string, principal: Principal, request: Message): Message | GatewayError {
    const { state } = inputOf(request);
    if (state === null) return request;
    const sealed = stringValue(request.bytes, state);
    const mine = sealed?.startsWith(MARK) === true ? sealed.slice(MARK.length) : null;
    const opened = mine === null ? null : this.#sealing.open(contextOf(server, principal), mine);
    const [expiresAt, digest, lexeme] = opened?.split('\0') ?? [];
    if (lexeme === undefined || digest !== requestDigest(request)) return foreignState();
    if (this.#clock.wall() >= Number(expiresAt)) {
      return new GatewayError('INVALID_PARAMS', 'params.requestState has expired');
    }
    return spliceMessage(request, [{ ...state, insert: lexeme }]);
  }

  /** The server's outcome with its state, if any, sealed for the client. */
  outward(server: string, principal: Principal, request: Message, outcome: Outcome): Outcome {
    if (outcome.kind === 'failure' || !mayRequireInput(outcome.message)) return outcome;
    const { message } = outcome;
    const state = bodyField(message, 'requestState');
    if (state === null || resultType(message) !== 'input_required') return outcome;
    const expiresAt = this.#clock.wall() + TTL_MS;
    // As the server wrote it, with quotes and escapes; JSON text contains no zero byte.
    const plain = [expiresAt, requestDigest(request), text(message.bytes, state)].join('\0');
    const sealed = MARK + this.#sealing.seal(contextOf(server, principal), plain);
    return answer(spliceMessage(message, [{ ...state, insert: `"${sealed}"` }]));
  }
}

function contextOf(server: string, principal: Principal): string {
  return `input\0${principal.id}\0${server}`;
}
