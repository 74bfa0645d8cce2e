import type { Exchange } from '../../src/model/exchange.ts';
import type { Message } from '../../src/model/message.ts';
import { answer } from '../../src/model/outcome.ts';
import { request, result } from '../../src/protocol/compose.ts';
import { DownstreamRig, stateless } from './downstream-rig.ts';
import { FakeClock } from './fake-clock.ts';
import type { Reply } from './raw-http.ts';

export const KEY = Buffer.alloc(32, 7);
export const DECLARED = { elicitation: { form: {}, url: {} }, sampling: {}, roots: {} };
export const FORM = '{"mode":"form","message":"who?","requestedSchema":{"type":"object","x":1.0}}';
export const PAGE = '{"mode":"url","elicitationId":"e-1","url":"https://x.example/","message":"go"}';

export const question = (method: string, params: string | null, id = '"s1"') => request(method, id, params, 'stateful');
export const form = () => question('elicitation/create', FORM);

export interface Sent {
  readonly params?: Record<string, unknown>;
  readonly id?: string | number;
  readonly capabilities?: object;
  readonly path?: string;
  readonly key?: string;
  readonly meta?: Record<string, unknown>;
}

export interface Asked {
  readonly resultType: string;
  readonly inputRequests: Record<string, { readonly method: string; readonly params?: object }>;
  readonly requestState: string;
}

export const askedIn = (reply: Reply): Asked => reply.json.result as Asked;

/** The retry that answers everything the result asks, with `{"key":…}`. */
export const retry = (asked: Asked, more: Record<string, unknown> = {}) => ({
  inputResponses: Object.fromEntries(Object.keys(asked.inputRequests).map((key) => [key, { key }])),
  requestState: asked.requestState,
  ...more,
});

/** Stateless clients before a scripted stateful server that asks, with a clock that advances only during waits. */
export class AskingRig {
  readonly clock = new FakeClock(Date.UTC(2026, 7, 1));
  rig!: DownstreamRig;
  /** The answers that the server got to its questions, and the reasons why its calls were cancelled. */
  answers: (Message | Error)[] = [];
  cancels: string[] = [];

  static async start(): Promise<AskingRig> {
    const made = new AskingRig();
    const agents = { ann: null, bob: null };
    made.rig = await DownstreamRig.start({ clock: made.clock, keys: [KEY], agents, unknownCallers: 'allow' });
    return made;
  }

  /** A server that asks one thing after the other, then answers. */
  serves(...rounds: (() => Message[])[]): void {
    this.answers = [];
    this.cancels = [];
    this.rig.core.on('tools/call', async (exchange: Exchange) => {
      exchange.onCancel = (reason) => this.cancels.push(reason);
      for (const round of rounds) {
        const asked = round().map((one) => exchange.ask(one).catch((error: Error) => error));
        this.answers.push(...(await Promise.all(asked)));
      }
      exchange.onCancel = null;
      return answer(result('0', '{"content":[],"n":1.0}', 'stateful'));
    });
  }

  /** One POST; the clock advances until it is answered. */
  async post({ params = {}, id = 1, capabilities = DECLARED, path, key, meta }: Sent = {}): Promise<Reply> {
    const { body, headers } = stateless('tools/call', { name: 't', ...params }, { id, capabilities });
    const more = meta === undefined ? '' : `${JSON.stringify(meta).slice(1, -1)},`;
    const auth: Record<string, string> = key === undefined ? {} : { authorization: `Bearer key-of-${key}` };
    const text = body.replace('"_meta":{', `"_meta":{${more}`);
    return this.while(this.rig.post(text, { ...headers, ...auth }, path));
  }

  /** Advances the clock until `coming` is settled. */
  async while<T>(coming: Promise<T>): Promise<T> {
    let come = false;
    const end = () => {
      come = true;
    };
    coming.then(end, end);
    while (!come) {
      await new Promise((resolve) => setTimeout(resolve, 1));
      await this.clock.advance(1);
    }
    return coming;
  }
}
