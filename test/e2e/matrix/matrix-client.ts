import type { MatrixRevision } from './revisions.ts';
import { rpcError } from './rpc-error.ts';

/** Any JSON value; cells read it without types. */
export type Json = ReturnType<typeof JSON.parse>;

/** How a client answers a request of the server. */
export type Answering = (method: string, params: Json) => object;

/** What every client of the matrix can do, whatever SDK it is made with. */
export interface MatrixClient {
  readonly revision: MatrixRevision;
  /** All notifications of the server and the gateway so far, outside and inside of calls. */
  readonly heard: Heard;
  /** All requests of the server so far. */
  readonly asked: { readonly method: string; readonly params: Json }[];
  answering: Answering;
  request(method: string, params: Json, signal?: AbortSignal): Promise<Json>;
  /** The client receives notifications of changed lists from here on. */
  watch(): Promise<void>;
  subscribe(uri: string): Promise<void>;
  /** A call that wants log messages from this level on. */
  callLogging(level: string, name: string, args: Json): Promise<Json>;
  /** The states that a call as a task went through, and its result; null where the revision has no tasks. */
  task: ((name: string) => Promise<{ readonly states: readonly string[]; readonly result: Json }>) | null;
  close(): Promise<void>;
}

interface Notice {
  readonly method: string;
  readonly params: Json;
}

/** Notifications in the order they came, to be waited for. */
export class Heard {
  readonly #notices: Notice[] = [];
  readonly #waiting = new Set<() => void>();

  add(method: string, params: Json): void {
    this.#notices.push({ method, params: params ?? {} });
    for (const look of [...this.#waiting]) look();
  }

  get count(): number {
    return this.#notices.length;
  }

  of(method: string): readonly Notice[] {
    return this.#notices.filter((notice) => notice.method === method);
  }

  /** The first notification from index `from` on that fits, received already or later. */
  async until(from: number, fits: (notice: Notice) => boolean): Promise<Notice> {
    for (let at = from; ; at++) {
      while (at >= this.#notices.length) await this.#next();
      const notice = this.#notices[at]!;
      if (fits(notice)) return notice;
    }
  }

  #next(): Promise<void> {
    return new Promise((done) => {
      const look = (): void => {
        this.#waiting.delete(look);
        done();
      };
      this.#waiting.add(look);
    });
  }
}

/** The outcome of a request: its result, or the error as it was on the wire. */
export async function attempt(request: Promise<Json>): Promise<{ result?: Json; error?: Json }> {
  try {
    return { result: await request };
  } catch (cause) {
    return { error: rpcError(cause) };
  }
}
