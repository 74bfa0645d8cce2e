import type { BodyMode, ClientRequest, ResponseHandler } from '../../http/client/client-port.ts';
import type { HttpFailure } from '../../http/client/http-failure.ts';
import type { ResponseHeaders } from '../../http/client/response-headers.ts';
import type { Flow } from '../../model/exchange.ts';
import { HttpEvents, newCursor, type StreamCursor } from './http-event-stream.ts';
import { isAnswer } from './http-refusal.ts';

/** How a POST ended. `answered` follows the message that is the answer; all others mean that there was none. */
export type PostEnd =
  | { readonly kind: 'answered' }
  | { readonly kind: 'refused'; readonly body: Buffer }
  | { readonly kind: 'broken'; readonly failure: HttpFailure | null }
  | { readonly kind: 'failed'; readonly failure: HttpFailure }
  | { readonly kind: 'too_large' }
  | { readonly kind: 'wrong'; readonly words: string };

export interface PostOwner {
  readonly maxMessageBytes: number;
  /** Whether an event stream is an acceptable reply. */
  readonly takesStreams: boolean;
  /** A success status came. */
  began(post: HttpPost, headers: ResponseHeaders): void;
  message(post: HttpPost, bytes: Buffer): void;
  /** The stream carried its answer but is still open; `ended` follows. */
  lingers(post: HttpPost): void;
  /** Once, unless the POST was aborted. */
  ended(post: HttpPost, end: PostEnd): void;
}

type Mode = 'waiting' | 'json' | 'events' | 'refused' | 'wrong';

const EMPTY = Buffer.alloc(0);
const ANSWERED: PostEnd = { kind: 'answered' };

/**
 * One request on its own POST, from sending to its end: tells JSON from event streams from refusals and judges what
 * is none of these. One object per call, no closure on the JSON path. Knows no session and no revision.
 */
export class HttpPost implements ResponseHandler, Flow {
  readonly request: number;
  readonly method: string;
  /** The session this POST presented. */
  readonly sessionId: string | null;
  status = 0;
  headers: ResponseHeaders | null = null;
  /** The owner is still finding out what a refusal means. */
  undecided = false;
  /** Set where the reply is an event stream. */
  cursor: StreamCursor | null = null;
  readonly #owner: PostOwner;
  #mode: Mode = 'waiting';
  #answered = false;
  #over = false;
  #body: Buffer = EMPTY;
  #wrong = '';
  #events: HttpEvents | null = null;
  #running: ClientRequest | null = null;

  constructor(owner: PostOwner, request: number, method: string, sessionId: string | null) {
    this.#owner = owner;
    this.request = request;
    this.method = method;
    this.sessionId = sessionId;
  }

  run(running: ClientRequest): void {
    this.#running = running;
  }

  /** Whether it is still open what the server's word on this request is. */
  get waiting(): boolean {
    return this.undecided || (!this.#over && (this.#mode === 'waiting' || this.#mode === 'refused'));
  }

  abort(): void {
    this.#over = true;
    this.#running?.abort();
  }

  pause(): void {
    this.#running?.pause();
  }

  resume(): void {
    this.#running?.resume();
  }

  head(status: number, headers: ResponseHeaders): BodyMode {
    this.status = status;
    this.headers = headers;
    if (status < 200 || status > 299) {
      this.#mode = 'refused';
      return 'whole';
    }
    this.#owner.began(this, headers);
    const type = headers.mediaType;
    const encoding = headers.get('content-encoding');
    if (encoding !== undefined && encoding.toLowerCase() !== 'identity') {
      return this.#reject(`the reply has content-encoding ${encoding}, which was not asked for`);
    }
    if (type === 'application/json' && status !== 202 && status !== 204) {
      this.#mode = 'json';
      return 'whole';
    }
    if (type === 'text/event-stream' && this.#owner.takesStreams) {
      this.#mode = 'events';
      this.cursor = newCursor();
      this.#events = new HttpEvents(this.cursor, this.#owner.maxMessageBytes, (data, name) => this.#event(data, name));
      return 'stream';
    }
    if (status !== 200) return this.#reject(`status ${status} is no answer to a request`);
    return this.#reject(type === '' ? 'the reply has no content-type' : `the reply has content-type ${type}`);
  }

  data(chunk: Buffer): void {
    if (this.#over) return;
    if (this.#mode === 'events') this.#push(chunk);
    else this.#body = chunk;
  }

  end(): void {
    if (this.#over) return;
    if (this.#mode === 'events') {
      this.#finish(this.#answered ? ANSWERED : { kind: 'broken', failure: null });
    } else if (this.#mode === 'refused') {
      this.#finish({ kind: 'refused', body: this.#body });
    } else if (this.#body.length === 0 && this.#mode === 'json') {
      this.#finish({ kind: 'wrong', words: 'the reply is empty' });
    } else if (this.#mode === 'json') {
      this.#owner.message(this, this.#body);
      this.#finish(ANSWERED);
    } else {
      this.#finish({ kind: 'wrong', words: this.#wrong });
    }
  }

  error(failure: HttpFailure): void {
    if (this.#over) return;
    if (this.#mode === 'events') {
      this.#finish(this.#answered ? ANSWERED : { kind: 'broken', failure });
    } else if (this.#mode === 'refused') {
      this.#finish({ kind: 'refused', body: EMPTY });
    } else if (this.#mode === 'wrong') {
      this.#finish({ kind: 'wrong', words: this.#wrong });
    } else {
      this.#finish({ kind: 'failed', failure });
    }
  }

  #push(chunk: Buffer): void {
    if (this.#events!.push(chunk) || this.#answered || this.#over) return;
    // The event that was dropped may have been the answer.
    this.#running?.abort();
    this.#finish({ kind: 'too_large' });
  }

  #event(data: Buffer, name: string): void {
    if (this.#over || name !== 'message') return;
    const first = !this.#answered && isAnswer(data);
    this.#owner.message(this, data);
    if (first && !this.#over) {
      this.#answered = true;
      this.#owner.lingers(this);
    }
  }

  #reject(words: string): BodyMode {
    this.#mode = 'wrong';
    this.#wrong = words;
    return 'whole';
  }

  #finish(end: PostEnd): void {
    this.#over = true;
    this.#owner.ended(this, end);
  }
}
