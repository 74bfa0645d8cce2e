import { type Clock, pause } from '../../model/clock.ts';
import type { Message } from '../../model/message.ts';
import { bodyString } from '../../protocol/body.ts';
import { notification, request } from '../../protocol/compose.ts';
import { fieldAt, text } from '../../protocol/fields.ts';
import { AnswerWatch } from './answer-watch.ts';
import type { BridgeRequest } from './bridge-request.ts';

/** Sends a request in the new session; `onMessage` gets each message of a streamed answer. */
type Send = (asked: Message, onMessage: (data: Buffer) => void) => Promise<BridgeRequest>;

/** As many as a gateway accepts in one session. */
const MAX_RESOURCES = 1_000;
/** A server that hangs must not hold up the others, and the client needs most of the session's requests in flight. */
const AT_ONCE = 16;
const RETRY_MS = 1_000;
const MAX_RETRY_MS = 30_000;

/** The log level and the subscriptions of a client, to ask for them again in the session that replaces a lost one. */
export class BridgeReplay {
  readonly #clock: Clock;
  readonly #write: (data: Buffer) => void;
  readonly #uris = new Set<string>();
  #level: string | null = null;
  #sent = 0;

  /** `write` writes a message to the client. */
  constructor(clock: Clock, write: (data: Buffer) => void) {
    this.#clock = clock;
    this.#write = write;
  }

  /** Records a request of the client that got a result. */
  record(sent: Message): void {
    const { method } = sent;
    if (method === 'logging/setLevel') this.#level = bodyString(sent, 'level');
    const uri = method.startsWith('resources/') ? bodyString(sent, 'uri') : null;
    if (uri === null) return;
    if (method === 'resources/unsubscribe') this.#uris.delete(uri);
    else if (method === 'resources/subscribe' && this.#uris.size < MAX_RESOURCES) this.#uris.add(uri);
  }

  /** Resolves when the session has all of it, or after `isOver`. Repeats what the gateway could not ask a server. */
  async run(send: Send, isOver: () => boolean): Promise<void> {
    const levelSet = this.#level === null ? null : this.#ask('logging/setLevel', { level: this.#level }, send);
    let left = [...this.#uris];
    for (let pauseMs = RETRY_MS; left.length > 0; pauseMs = Math.min(pauseMs * 2, MAX_RETRY_MS)) {
      const uris = left.values();
      const later: string[] = [];
      const subscribe = async (): Promise<void> => {
        for (const uri of uris) if (!isOver() && !(await this.#subscribed(uri, send))) later.push(uri);
      };
      await Promise.all(Array.from({ length: AT_ONCE }, subscribe));
      left = later;
      if (left.length > 0) await pause(this.#clock, pauseMs);
    }
    await levelSet;
  }

  /** False if the server could not be asked. Else the client gets an update: it may have missed some, or gets no more. */
  async #subscribed(uri: string, send: Send): Promise<boolean> {
    if (!this.#uris.has(uri)) return true;
    const answer = await this.#ask('resources/subscribe', { uri }, send);
    if (answer === null || mayComeLater(answer)) return false;
    // The client gave it up meanwhile.
    if (!this.#uris.has(uri)) await this.#ask('resources/unsubscribe', { uri }, send);
    else {
      if (answer.kind === 'error') this.#uris.delete(uri);
      this.#write(notification('notifications/resources/updated', JSON.stringify({ uri }), 'stateful').bytes);
    }
    return true;
  }

  /** Resolves with the answer, which the client does not get; null without one. The id is one that no client chooses. */
  async #ask(method: string, params: object, send: Send): Promise<Message | null> {
    const asked = request(method, `"trunkline-replay-${++this.#sent}"`, JSON.stringify(params), 'stateful');
    let streaming = true;
    const answer: AnswerWatch = new AnswerWatch(asked, (data) => {
      // Requests and log messages of the server, which the client expects.
      if (streaming && !answer.came) this.#write(data);
    });
    const { body, status } = await send(asked, answer.take);
    streaming = false;
    if (body.length > 0) answer.take(body);
    // Any other status concerns the session or the gateway, not the request.
    return status === 200 ? answer.message : null;
  }
}

/** Whether the answer is a failure of the gateway to ask the server, which may succeed later. */
function mayComeLater({ kind, bytes, bodyStart, bodyEnd }: Message): boolean {
  const said = (key: string): string => {
    const range = fieldAt(bytes, bodyStart, bodyEnd, ['data', key]);
    return range === null ? '' : text(bytes, range);
  };
  return kind === 'error' && (said('retryable') === 'true' || /^"(NOT_SENT|UNKNOWN)"$/.test(said('outcome')));
}
