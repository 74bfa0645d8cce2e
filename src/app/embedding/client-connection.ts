import { PassThrough, Writable } from 'node:stream';
import type { Downstream } from '../../downstream/downstream.ts';
import { LineReader } from '../../downstream/stdio/line-reader.ts';
import type { Principal } from '../../model/client-profile.ts';
import type { Endpoint } from '../../model/exchange.ts';
import { outsideServers } from '../../upstream/error-boundary.ts';
import { ObjectTransport, type SdkTransport } from './object-transport.ts';

/**
 * Connects a client in this process over the front that serves local clients: both eras, everything a client on a
 * pipe can do. The caller's access is checked with every message, as anywhere.
 */
export function connectClient(downstream: Downstream, principal: Principal, endpoint: Endpoint): SdkTransport {
  const input = new PassThrough();
  const lines = new LineReader(
    Number.MAX_SAFE_INTEGER,
    (line) => {
      const text = line.toString();
      // Apart from the gateway's own work: a client may well send or close from within its handler.
      outsideServers(() => queueMicrotask(() => transport.deliver(text)));
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
  const transport = new ObjectTransport({
    send: (text) => input.write(`${text}\n`),
    close: () => handler.close(),
  });
  handler.closed.then(() => transport.ended());
  return transport;
}
