import type { MatrixRevision } from './revisions.ts';
import { rpcError } from './rpc-error.ts';

/** Whatever JSON says; cells look into it freely. */
export type Json = ReturnType<typeof JSON.parse>;

/** What a client says when it is asked. */
export type Answering = (method: string, params: Json) => object;

/** What every client of the matrix can do, whatever SDK it is made with. */
export interface MatrixClient {
  readonly revision: MatrixRevision;
  /** All that the server or the gateway told so far, outside and inside of calls. */
  readonly heard: Heard;
  /** All that was asked so far. */
  readonly asked: { readonly method: string; readonly params: Json }[];
  answering: Answering;
  request(method: string, params: Json, signal?: AbortSignal): Promise<Json>;
  /** The client hears of changed lists from here on. */
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

  /** The first that fits among those from `from` on, come already or still to come. */
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

/** What a request came to: its result, or the error as it was on the wire. */
export async function attempt(request: Promise<Json>): Promise<{ result?: Json; error?: Json }> {
  try {
    return { result: await request };
  } catch (cause) {
    return { error: rpcError(cause) };
  }
}
