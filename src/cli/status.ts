import type { CommandInput } from './command-input.ts';
import { EXIT, type ExitCode } from './exit-code.ts';
import { accessGateway } from './gateway-access.ts';
import { isReady, serverLine } from './start-screen.ts';

/** `trunkline status`: the servers with state, tools and what needs action. */
export async function status(input: CommandInput): Promise<ExitCode> {
  const { terminal, flags } = input;
  const gateway = await accessGateway(input);
  try {
    const statuses = await gateway.statuses();
    if (flags.json === true) {
      terminal.out(`${JSON.stringify({ servers: statuses })}\n`);
      return EXIT.ok;
    }
    const width = Math.max(0, ...statuses.map(({ name }) => name.length));
    terminal.out(`${statuses.filter(isReady).length} of ${statuses.length} servers ready (${gateway.label})\n`);
    for (const one of statuses) terminal.out(`${serverLine(one, width, Date.now())}\n`);
    return EXIT.ok;
  } finally {
    await gateway.close();
  }
}
