import type { Clock } from '../../model/clock.ts';
import { foreignState, GatewayError } from '../../model/gateway-error.ts';
import type { Era, Message } from '../../model/message.ts';
import type { Random } from '../../model/random.ts';
import { isUrlMode } from '../../protocol/client-capabilities.ts';
import { request } from '../../protocol/compose.ts';
import { editObject } from '../../protocol/splice.ts';
import {
  type InputRequest,
  type InputRequired,
  inputOf,
  mayRequireInput,
  readInputRequired,
  refusedInput,
  takesInput,
  withInput,
} from '../../protocol/stateless/input-required.ts';
import { resultType, toStateless } from '../../protocol/stateless/to-stateless.ts';
import type { Call } from './call.ts';

/** Maximum of input rounds per call; a server that needs more is assumed never to answer. */
const MAX_ROUNDS = 8;
/** Pause before the next round if the server asks for a retry without input requests. */
const PAUSE_MS = 250;

/** Whether a stateless server's answer is an input request. */
export function needsInput(call: Call, answer: Message): boolean {
  return mayRequireInput(answer) && takesInput(call.method) && resultType(answer) === 'input_required';
}

/** A stateful server did not ask for this input and would run the call from the start, so the call is refused. */
export function refuseInput(call: Call, era: Era): GatewayError | null {
  if (era === 'stateless') return null;
  const { server } = call;
  // The server was restarted in another era since it asked.
  if (call.rounds > 0)
    return new GatewayError('UNKNOWN', `${server} no longer knows the input request that it sent`, { server });
  const { responses, state } = inputOf(call.request);
  if (call.request.era === 'stateful' || (responses === null && state === null)) return null;
  return foreignState();
}

/**
 * Input rounds for a stateless server and a stateful client (decision 011): the client is asked all requests of a round at once
 * on its own call, which is then sent again with the answers. Requests for undeclared capabilities are refused (S4).
 */
export class InputRounds {
  readonly #clock: Clock;
  readonly #random: Random;
  readonly #resend: (call: Call) => void;
  /** Requests of the calls in input rounds, in the server's era and without answers. */
  readonly #plain = new WeakMap<Call, Message>();

  constructor(clock: Clock, random: Random, resend: (call: Call) => void) {
    this.#clock = clock;
    this.#random = random;
    this.#resend = resend;
  }

  begin(call: Call, answer: Message): void {
    const required = readInputRequired(answer);
    const refused = refusedInput(call.server, call.exchange.client, answer);
    if (call.exchange.takesInputRequired) {
      call.succeed(refused ?? answer);
    } else if (typeof required === 'string') {
      this.#fail(call, 'UPSTREAM_PROTOCOL', `${call.server} needs input, but in no form that is known: ${required}`);
    } else if (++call.rounds > MAX_ROUNDS) {
      this.#fail(call, 'UPSTREAM_PROTOCOL', `${call.server} still needs input after ${MAX_ROUNDS} rounds`);
    } else if (required.requests.length === 0) {
      this.#clock.after(PAUSE_MS, () => this.#retry(call, null, required.state));
    } else if (refused === null) this.#ask(call, answer.bytes, required);
    else call.succeed(refused);
  }

  #ask(call: Call, bytes: Buffer, { requests, state }: InputRequired): void {
    const answers: Buffer[] = [];
    let open = requests.length;
    call.pauseDeadline();
    requests.forEach((asked, i) => {
      call.exchange.ask(this.#stateful(call, bytes, asked, i)).then(
        (given) => {
          if (call.done) return;
          // Input responses carry results only: an error of the client ends its own call.
          if (given.kind === 'error') {
            call.succeed(given);
            return;
          }
          answers[i] = given.body;
          if (--open > 0) return;
          call.resumeDeadline();
          this.#retry(call, responsesOf(requests, answers), state);
        },
        (cause: unknown) => {
          const why = cause instanceof GatewayError ? cause : new GatewayError('INTERNAL', String(cause));
          this.#fail(call, why.code, `${call.server} needs input: ${why.message}`, cause);
        },
      );
    });
  }

  #retry(call: Call, responses: Buffer | null, state: Buffer | null): void {
    if (call.done) return;
    const { client } = call.exchange;
    let plain = this.#plain.get(call);
    if (plain === undefined) {
      plain = toStateless(call.request, client, client.logLevel);
      this.#plain.set(call, plain);
    }
    call.request = withInput(plain, responses, state);
    call.attempts = 0;
    this.#resend(call);
  }

  /** The input request as a stateful request; one that opens a web page has an id there. */
  #stateful(call: Call, bytes: Buffer, { method, params }: InputRequest, index: number): Message {
    const id = `"${call.rounds}.${index}"`;
    if (params === null) return request(method, id, null, 'stateful');
    const opens = method === 'elicitation/create' && isUrlMode(bytes, params);
    const changes = opens ? [['elicitationId', `"${this.#random.hex(16)}"`] as const] : [];
    return request(method, id, editObject(bytes, params, changes), 'stateful');
  }

  #fail(call: Call, code: GatewayError['code'], text: string, cause?: unknown): void {
    call.fail(new GatewayError(code, text, { outcome: 'UNKNOWN', server: call.server, cause }));
  }
}

function responsesOf(requests: readonly InputRequest[], answers: readonly Buffer[]): Buffer {
  const parts: Buffer[] = [];
  requests.forEach(({ key }, i) => {
    parts.push(i === 0 ? OPEN : COMMA, key, COLON, answers[i]!);
  });
  return Buffer.concat([...parts, CLOSE]);
}

const OPEN = Buffer.from('{');
const COMMA = Buffer.from(',');
const COLON = Buffer.from(':');
const CLOSE = Buffer.from('}');
