import type { AccessTable, CallExplanation, CallerAccess } from '../../model/access.ts';
import { printable } from '../../model/printable.ts';
import { serverPath } from '../access/control-client.ts';
import { runningClient } from '../access/find-running.ts';
import { type CommandInput, print } from '../command-input.ts';
import { EXIT, type ExitCode } from '../exit-code.ts';

/** `trunkline access`: the tools that each caller may use under the call policies. */
export async function access(input: CommandInput): Promise<ExitCode> {
  const table = JSON.parse(await (await runningClient(input)).get('/api/v1/access')) as AccessTable;
  print(input, table, () => table.callers.map((caller) => callerText(caller)).join(''));
  return EXIT.ok;
}

/** `trunkline access why <caller> <server> <tool>`; exit code 5 if the gateway would refuse the call. */
export async function why(
  input: CommandInput & { readonly caller: string; readonly server: string; readonly tool: string },
): Promise<ExitCode> {
  const { caller, server, tool } = input;
  const principal = /^(?:anonymous|operator|agent:.*)$/.test(caller) ? caller : `agent:${caller}`;
  const query = new URLSearchParams({ principal, tool });
  const path = `${serverPath(server)}/access?${query}`;
  const found = JSON.parse(await (await runningClient(input)).get(path)) as CallExplanation;
  print(input, found, () => explanationText(found));
  return found.allowed ? EXIT.ok : EXIT.toolError;
}

function callerText({ name, servers }: CallerAccess): string {
  const lines = servers.map(({ server, refusal, allowed, refused }) => {
    const all = allowed + refused.length;
    const words = refusal === null ? `${allowed} of ${all} tools` : 'refused';
    return `  ${server.padEnd(24)}  ${words}${refused.map(({ tool, policy }) => `\n    ${tool}: ${policy}`).join('')}\n`;
  });
  return `${printable(name)}\n${lines.join('')}`;
}

function explanationText({ allowed, known, tool, server, verdicts }: CallExplanation): string {
  const lines = verdicts.map(({ policy, verdict, reason }) => {
    const words = reason === null ? '' : `  ${printable(reason)}`;
    return `${policy.padEnd(14)}${verdict}${words}\n`;
  });
  const unknown = known ? '' : `${printable(server)} is not known to have a tool ${printable(tool)}\n`;
  return `${lines.join('')}${unknown}${allowed ? 'the call would be sent' : 'the call would be refused'}\n`;
}
