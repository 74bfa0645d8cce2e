import type { HttpClientPort, HttpRequest, ResponseHandler } from '../../http/client/client-port.ts';
import type { HttpFailure } from '../../http/client/http-failure.ts';
import type { ResponseHeaders } from '../../http/client/response-headers.ts';
import { SseParser } from '../../protocol/sse-parser.ts';

/** How a request to a gateway ended. */
export interface Talk {
  /** 0 when no answer began. */
  readonly status: number;
  readonly headers: ResponseHeaders | null;
  /** The answer was an event stream; its messages were handed on one by one. */
  readonly streamed: boolean;
  /** The whole body of an answer that was no stream. */
  readonly body: Buffer;
  /** Of the last event that had one. */
  readonly lastEventId: string | null;
  /** How long the gateway asked to wait before coming back. */
  readonly retryMs: number | null;
  /** Why the answer is not whole; null when it is. */
  readonly failure: HttpFailure | null;
}

const NOTHING = Buffer.alloc(0);

/**
 * One request to a gateway. Messages of an event stream go to `onMessage` as they come. Resolves when the answer has
 * ended, however; never rejects. `onStart` gets the way to end it early, after which nothing resolves.
 */
export function talk(
  client: HttpClientPort,
  request: HttpRequest,
  onMessage: (data: Buffer) => void,
  onStart: (abort: () => void) => void = () => {},
): Promise<Talk> {
  return new Promise((resolve) => {
    const listener = new TalkListener(request.maxBodyBytes ?? MAX_BYTES, onMessage, resolve);
    const running = client.request({ ...request, maxBodyBytes: request.maxBodyBytes ?? MAX_BYTES }, listener);
    onStart(() => running.abort());
  });
}

const MAX_BYTES = 64 * 1024 * 1024;

class TalkListener implements ResponseHandler {
  readonly #maxBytes: number;
  readonly #onMessage: (data: Buffer) => void;
  readonly #resolve: (talk: Talk) => void;
  #parser: SseParser | null = null;
  #status = 0;
  #headers: ResponseHeaders | null = null;
  #body: Buffer = NOTHING;
  #lastEventId: string | null = null;
  #retryMs: number | null = null;

  constructor(maxBytes: number, onMessage: (data: Buffer) => void, resolve: (talk: Talk) => void) {
    this.#maxBytes = maxBytes;
    this.#onMessage = onMessage;
    this.#resolve = resolve;
  }

  head(status: number, headers: ResponseHeaders): 'stream' | 'whole' {
    this.#status = status;
    this.#headers = headers;
    if (status !== 200 || headers.mediaType !== 'text/event-stream') return 'whole';
    this.#parser = new SseParser(this.#maxBytes, ({ id, data: message, retryMs }) => {
      if (id !== null) this.#lastEventId = id;
      if (retryMs !== null) this.#retryMs = retryMs;
      if (message.length > 0) this.#onMessage(message);
    });
    return 'stream';
  }

  data(chunk: Buffer): void {
    if (this.#parser === null) this.#body = chunk;
    else this.#parser.push(chunk);
  }

  end(): void {
    this.#finish(null);
  }

  error(failure: HttpFailure): void {
    this.#finish(failure);
  }

  #finish(failure: HttpFailure | null): void {
    this.#resolve({
      status: this.#status,
      headers: this.#headers,
      streamed: this.#parser !== null,
      body: this.#body,
      lastEventId: this.#lastEventId,
      retryMs: this.#retryMs,
      failure,
    });
  }
}
