import type { Server } from '../../model/server.ts';
import type { DefinitionView } from '../../model/server-state.ts';
import { shownArguments } from '../process/launch-command.ts';

/** A server's definition for people (S3.16): names of variables and headers are shown, of their values none. */
export function definitionView(server: Server, redact: (text: string) => string): DefinitionView {
  const { transport } = server;
  const process = transport.type === 'stdio' && server.misconfigured === undefined ? transport : null;
  return {
    enabled: server.enabled,
    start: server.start,
    command: process === null ? null : redact(process.command),
    args: process === null ? [] : shownArguments(process.args, redact),
    env: 'env' in transport ? masked(transport.env) : {},
    headers: 'headers' in transport ? masked(transport.headers) : {},
    timeoutMs: server.timeoutMs,
    description: server.description,
  };
}

function masked(secrets: Readonly<Record<string, { toString(): string }>>): Record<string, string> {
  return Object.fromEntries(Object.keys(secrets).map((name) => [name, `${secrets[name]}`]));
}
