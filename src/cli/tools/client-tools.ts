import { styleText } from 'node:util';
import { counted } from '../../model/counted.ts';
import { accessGateway } from '../access/gateway-access.ts';
import type { CommandInput } from '../command-input.ts';
import { EXIT, type ExitCode, noSuch } from '../exit-code.ts';

interface ClientToolsInput extends CommandInput {
  /** List only the tools of this server; the totals cover all servers. */
  readonly server: string | undefined;
  readonly client: string;
  /** Name of the gateway in the client's file. */
  readonly name: string;
}

const WORDS = { dropped: 'left out', shortened: 'shortened', refused: 'refused by the API of the model' } as const;

/** `trunkline tools --as <client>`: tools under the names that an MCP client gives its model, with lengths and token counts. */
export async function clientTools(input: ClientToolsInput): Promise<ExitCode> {
  const { terminal, flags, server, client, name } = input;
  const gateway = await accessGateway(input);
  try {
    const views = await gateway.toolsForClients(name);
    const view = views.find((one) => one.client === client);
    const known = views.map((one) => one.client);
    if (view === undefined) throw noSuch(`client "${client}"`, client, known, `; known are ${known.join(', ')}`);
    const servers = [...new Set([...(await gateway.statuses()), ...view.tools].map(serverOf))];
    if (server !== undefined && !servers.includes(server)) throw noSuch(`server "${server}"`, server, servers);
    const tools = view.tools.filter((tool) => server === undefined || tool.server === server);
    if (flags.json === true) {
      terminal.out(`${JSON.stringify({ ...view, tools })}\n`);
      return EXIT.ok;
    }
    const { title, limit, maxTools, offered, tokens, deferred } = view;
    const most = maxTools === null ? '' : ` (at most ${maxTools})`;
    terminal.out(`${styleText('bold', title)}: ${counted(offered, 'tool')}${most}, about ${tokens} tokens`);
    terminal.out(`${deferred ? ', of which it sends none until its model searches for a tool' : ''}\n\n`);
    for (const tool of tools) {
      const length = `${tool.length}/${limit}`.padStart(7);
      const shown = tool.beyond === null ? '' : styleText('red', `  too long: ${WORDS[tool.beyond]}`);
      terminal.out(`${length} ${String(tool.tokens).padStart(6)}  ${tool.shown}${shown}\n`);
    }
    return EXIT.ok;
  } finally {
    await gateway.close();
  }
}

function serverOf(entry: { readonly name: string } | { readonly server: string }): string {
  return 'server' in entry ? entry.server : entry.name;
}
