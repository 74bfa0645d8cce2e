import type { Server } from '../../model/server.ts';

/**
 * A server as programs on the bus hear of it (S0.3). What could hold a secret is left out or named, not shown: of a
 * command its program and not its arguments, of an address no user, path or query.
 */
export function createdEvent(server: Server): Buffer {
  const { name, description, transport, timeoutMs } = server;
  return Buffer.from(
    JSON.stringify({
      name,
      transport: transport.type,
      ...(description === null ? {} : { description }),
      ...('command' in transport && typeof transport.command === 'string' ? { command: transport.command } : {}),
      ...('url' in transport ? { url: origin(String(transport.url)) } : {}),
      connectTimeoutSeconds: Math.ceil(timeoutMs / 1000),
    }),
  );
}

/** S0.5. */
export function deletedEvent(name: string): Buffer {
  return Buffer.from(JSON.stringify({ name }));
}

function origin(url: string): string {
  return URL.canParse(url) ? new URL(url).origin : '';
}
