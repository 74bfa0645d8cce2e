import type { GatewayFacts } from '../../control/schemas.ts';
import type { ClientLinks } from '../../model/client-links.ts';
import { LINKED_NAME } from '../../model/names.ts';
import { type ClientApp, clientsHere, entryFor, fileOf, isInstalled } from '../clients/clients.ts';
import { connectCommand, type KeyReference, keyReference, programCommand } from '../clients/connect.ts';
import { withEntry } from '../clients/edit-file.ts';
import type { Components } from '../components.ts';

/** Returns how to connect each client to this gateway, without keys; null for an unknown agent. */
export function clientLinks(
  { registry, options }: Pick<Components, 'registry' | 'options'>,
  { mcpUrl: url, files }: Pick<GatewayFacts, 'mcpUrl' | 'files'>,
  agent: string | null,
): ClientLinks | null {
  const { state } = registry;
  const { env } = options.load;
  if (agent !== null && !state.agents.has(agent)) return null;
  const key = keyReference(state, env, agent);
  const placeholder = key === null ? null : placeholderOf(key);
  const bridge = [process.execPath, process.argv[1] ?? 'trunkline', 'stdio', ...files.slice(0, 1)];
  const entry = (client: ClientApp) => entryFor(client, { name: LINKED_NAME, url, key: placeholder, bridge });
  const program = programCommand(env);
  return {
    url,
    key:
      key === null
        ? null
        : { agent: key.agent, placeholder: placeholder!, shell: key.shell, show: `${program} key ${key.agent}` },
    agents: [...state.agents.keys()],
    clients: clientsHere(env).map((client) => ({
      id: client.id,
      title: client.title,
      installed: isInstalled(client),
      file: fileOf(client),
      syntax: client.syntax,
      command: connectCommand(client.id, url, key),
      content: withEntry('', client, LINKED_NAME, entry(client)),
      link: `${program} link ${client.id}${key === null ? '' : ` --key "${key.shell}"`}`,
    })),
  };
}

/** Returns the variable that holds the key, such as `$WRITER_KEY`, or one that is named after the agent. */
function placeholderOf({ agent, variable }: KeyReference): string {
  return `$${variable ?? `${agent.toUpperCase().replaceAll(/[^A-Z0-9]/g, '_')}_KEY`}`;
}
