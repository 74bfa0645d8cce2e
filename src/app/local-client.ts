import { PassThrough, Writable } from 'node:stream';
import type { Downstream } from '../downstream/downstream.ts';
import { LineReader } from '../downstream/stdio/line-reader.ts';
import type { Principal } from '../model/client-profile.ts';
import type { Endpoint } from '../model/exchange.ts';
import { outsideServers } from '../upstream/error-boundary.ts';

/** A client in this process goes no further with a call that asks for input once more. */
export const MAX_INPUT_ROUNDS = 8;

/** The sending side of a client in this process. */
export interface LocalClient {
  /** One message, without a line break. */
  send(text: string): void;
  close(): void;
  /** Resolves when the gateway or `close` has ended it. */
  readonly closed: Promise<void>;
}

/**
 * Connects a client in this process over the front that serves local clients: both eras, everything a client on a
 * pipe can do. The caller's access is checked with every message, as anywhere. `received` gets each whole message.
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
      // Apart from the gateway's own work: a client may well send or close from within its handler.
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
