import type { Server } from '../../model/server.ts';
import type { DefinitionView } from '../../model/server-state.ts';
import { sweptDefinition, sweptDescription } from '../../model/swept-definition.ts';

/** A server's definition for people (S3.16): names of variables and headers are shown, of their values none. */
export function definitionView(server: Server, redact: (text: string) => string): DefinitionView {
  const { transport, description, misconfigured } = server;
  const { command, args, env, headers } = sweptDefinition(transport);
  return {
    enabled: server.enabled,
    start: server.start,
    command: command === null || misconfigured !== undefined ? null : redact(command),
    args: args.map(redact),
    env,
    headers,
    timeoutMs: server.timeoutMs,
    description: description === null ? null : redact(sweptDescription(description, transport)),
  };
}
