import { styleText } from 'node:util';
import { accessGateway } from '../access/gateway-access.ts';
import type { CommandInput } from '../command-input.ts';
import { EXIT, type ExitCode, noSuch } from '../exit-code.ts';
import { type ToolDefinition, toolSignature } from './tool-signature.ts';

/** `trunkline tools [server]`: TypeScript-like signatures, by server, with the exposed name where it is another. */
export async function tools(input: CommandInput & { readonly server: string | undefined }): Promise<ExitCode> {
  const { terminal, flags, server } = input;
  const gateway = await accessGateway(input);
  try {
    const all = await gateway.tools();
    const names = [
      ...new Set([...(await gateway.statuses()).map(({ name }) => name), ...all.map((tool) => tool.server)]),
    ];
    if (server !== undefined && !names.includes(server)) throw noSuch(`server "${server}"`, server, names);
    const shown = all.filter((tool) => server === undefined || tool.server === server);
    if (flags.json === true) {
      const items = shown.map(
        ({ definition, ...rest }) => `${JSON.stringify(rest).slice(0, -1)},"definition":${definition}}`,
      );
      terminal.out(`{"tools":[${items.join(',')}]}\n`);
      return EXIT.ok;
    }
    for (const name of new Set(shown.map((tool) => tool.server))) {
      const own = shown.filter((tool) => tool.server === name);
      terminal.out(`${styleText('bold', name)} (${own.length} tools)\n\n`);
      for (const tool of own) {
        const usual = `${tool.server}__${tool.name}`;
        const renamed = tool.exposedName === usual ? '' : `// exposed as ${tool.exposedName}\n`;
        terminal.out(`${renamed}${toolSignature(JSON.parse(tool.definition) as ToolDefinition)}\n\n`);
      }
    }
    return EXIT.ok;
  } finally {
    await gateway.close();
  }
}
