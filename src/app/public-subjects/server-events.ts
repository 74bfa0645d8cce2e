import type { Server } from '../../model/server.ts';
import { sweptDefinition, sweptDescription } from '../../model/swept-definition.ts';

/**
 * A server as programs on the bus hear of it (S0.3): the members that the seed's row has and we have too. Variables and
 * headers are left out; other secrets are masked, or their reference is shown. `redact` masks every known secret.
 */
export function createdEvent({ name, description, transport }: Server, redact: (text: string) => string): Buffer {
  const { command, args, url } = sweptDefinition(transport);
  const event: Record<string, unknown> = { name, transport: transport.type };
  if (description !== null) event['description'] = redact(sweptDescription(description, transport));
  if (command !== null) Object.assign(event, { command: redact(command), args: args.map(redact) });
  if (url !== null) event['url'] = redact(url);
  return Buffer.from(JSON.stringify(event));
}

/** S0.5. */
export function deletedEvent(name: string): Buffer {
  return Buffer.from(JSON.stringify({ name }));
}
