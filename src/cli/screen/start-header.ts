import { styleText } from 'node:util';
import type { ClientApp } from '../../app/clients/clients.ts';
import { connectCommands, type KeyReference } from '../../app/clients/connect.ts';

export interface StartFacts {
  readonly version: string;
  /** How the user runs the program, such as `npx trunkline`. */
  readonly program: string;
  readonly readyMs: number;
  readonly mcpUrl: string;
  readonly controlUrl: string;
  /** The address of the console; it logs one browser in. */
  readonly consoleUrl: string;
  /** `0.0.0.0` or `::` if the gateway listens on all addresses of the machine; otherwise null or absent. */
  readonly onAllAddresses?: string | null;
  /** Configuration file as shown to the user, or the server's command line. */
  readonly source: string;
  readonly warnings: readonly string[];
  /** How a client gets the key that it needs; null if it needs none. */
  readonly key: KeyReference | null;
  /** Clients of this machine, by whether they are linked to this gateway. */
  readonly clients: { readonly linked: readonly ClientApp[]; readonly others: readonly ClientApp[] };
  /** Problems of single servers, each with its place and remedy. */
  readonly problems: readonly string[];
}

/** The text that is printed as soon as the gateway listens: identity, addresses, and how clients connect. */
export function startHeader(facts: StartFacts): string {
  return [
    `${styleText('bold', `trunkline ${facts.version}`)}  ready in ${facts.readyMs} ms`,
    `  MCP      ${facts.mcpUrl}   ${styleText('gray', '(2024-11-05 to 2026-07-28)')}`,
    ...(facts.onAllAddresses == null ? [] : [`           on all addresses of this machine (${facts.onAllAddresses})`]),
    `  Console  ${facts.consoleUrl}`,
    `  File     ${facts.source}`,
    ...connectLines(facts),
    ...facts.problems.map((problem) => noteText('red', 'Problem', problem)),
    ...facts.warnings.map((warning) => noteText('yellow', 'Warning', warning)),
    '',
  ].join('\n');
}

/** How clients of this machine connect, which they can do while servers are still starting. */
function connectLines({ clients: { linked, others }, key, mcpUrl, program }: StartFacts): readonly string[] {
  const titles = (clients: readonly ClientApp[]): string => clients.map(({ title }) => title).join(', ');
  const bearer = key === null ? '' : ` --key "${key.shell}"`;
  const ids = others.map(({ id }) => id);
  const commands = linked.length > 0 && others.length === 0 ? [] : connectCommands(ids, mcpUrl, key);
  return [
    ...(linked.length === 0 ? [] : [`  Linked   ${titles(linked)}`]),
    ...(others.length === 0
      ? []
      : [`  Link     ${program} link --all${bearer}   ${styleText('gray', `(${titles(others)})`)}`]),
    ...commands.map((command) => `  Connect  ${command}`),
    ...(key === null ? [] : [`  Key      ${keyText(key, program)}`]),
  ];
}

function keyText({ agent, variable, others }: KeyReference, program: string): string {
  const rest = others.length === 0 ? '' : `; other agents: ${others.join(', ')}`;
  return `that of agent ${agent}, ${variable === null ? `printed by: ${program} key ${agent}` : `in $${variable}`}${rest}`;
}

/** A label, followed by a sentence or an excerpt of the configuration. */
export function noteText(colour: 'red' | 'yellow', word: string, text: string): string {
  return `  ${styleText(colour, word)}  ${text.replaceAll('\n', '\n  ')}`;
}
