import { Secret } from '../../model/secret.ts';
import type { Server } from '../../model/server.ts';

const EPOCH = 'TRUNKLINE_EPOCH';

/** The server with the fencing token of its owner in the environment of its process; empty: without. */
export function withEpoch(server: Server, epoch: string): Server {
  const { transport } = server;
  if (epoch === '' || !('env' in transport)) return server;
  return { ...server, transport: { ...transport, env: { ...transport.env, [EPOCH]: new Secret(epoch) } } };
}
