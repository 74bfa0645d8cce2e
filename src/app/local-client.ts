import { PassThrough, Writable } from 'node:stream';
import type { Downstream } from '../downstream/downstream.ts';
import { LineReader } from '../downstream/stdio/line-reader.ts';
import type { Principal } from '../model/client-profile.ts';
import type { Endpoint } from '../model/exchange.ts';
import { outsideServers } from '../upstream/error-boundary.ts';

/** Limit of the rounds of input that a client in this process answers for one call. */
export const MAX_INPUT_ROUNDS = 8;

/** The sending side of a client in this process. */
export interface LocalClient {
  /** `text`: one message without a line break. */
  send(text: string): void;
  close(): void;
  /** Resolves when the gateway or `close` has ended the connection. */
  readonly closed: Promise<void>;
}

/**
 * Connects a client in this process through the stdio front end; it can do what a client on a pipe can. The gateway checks
 * the caller's access with every message. `received` gets each complete message.
 */
export function localClient(
  downstream: Downstream,
  principal: Principal,
  endpoint: Endpoint,
  received: (text: string) => void,
): LocalClient {
  const input = new PassThrough();
  const lines = new LineReader(
    Number.MAX_SAFE_INTEGER,
    (line) => {
      const text = line.toString();
      // Outside the gateway's call stack: the client may send or close in its handler.
      outsideServers(() => queueMicrotask(() => received(text)));
    },
    () => {},
  );
  const output = new Writable({
    write(chunk: Buffer, _encoding, done) {
      lines.push(chunk);
      done();
    },
  });
  const handler = downstream.stdio({ input, output, principal, endpoint });
  return {
    send: (text) => void input.write(`${text}\n`),
    close: () => handler.close(),
    closed: handler.closed,
  };
}
