import { GivenInputs } from '../../mcp-registry/given-inputs.ts';
import type { Input, LaunchDefinition } from '../../mcp-registry/server-json.ts';
import { printable } from '../../model/printable.ts';
import type { CommandInput } from '../command-input.ts';
import { removeSecrets, storeSecrets } from '../credentials/store-secrets.ts';
import { usage } from '../exit-code.ts';

/** A server of a registry or bundle that is about to be added, with the secrets to store first. */
export interface NewServer {
  readonly name: string;
  readonly definition: object;
  storeSecrets(): Promise<void>;
  /** Removes the secrets and files that were stored for the server, if adding it failed. */
  discard(): Promise<void>;
}

/** Values of inputs: from `--set`, else the default, else the answer of the user. One error names all missing ones. */
export class Inputs extends GivenInputs {
  readonly #input: CommandInput;

  constructor(input: CommandInput, server: string, set: readonly string[]) {
    super(server, parsed(set), async (name, one) => {
      const question = { id: name, description: aboutOf(one) || 'Value', password: one.isSecret === true };
      return input.terminal.ask?.(question);
    });
    this.#input = input;
  }

  /** The server with this definition. Throws if inputs are missing. */
  build(definition: LaunchDefinition): NewServer {
    this.assertComplete();
    this.#input.terminal.err(`${printable(`${this.server} will be: ${lineOf(definition)}`)}\n`);
    let fresh: readonly string[] = [];
    return {
      name: this.server,
      definition,
      storeSecrets: async () => void (fresh = await storeSecrets(this.#input, this.secrets)),
      discard: () => removeSecrets(this.#input, fresh),
    };
  }

  assertComplete(): void {
    if (this.unknown.length > 0) {
      const known = [...this.inputs.keys()].join(', ');
      const hint = known === '' ? '' : `; it has: ${known}`;
      throw usage(`${this.unknown.join(', ')} of --set is no input of this server${hint}`);
    }
    if (this.missing.size === 0) return;
    const lines = Array.from(
      this.missing,
      ([name, input]) => `    ${name}  ${aboutOf(input)}${input.isSecret === true ? ' (a secret)' : ''}`,
    );
    throw usage(`values are missing; give them with --set NAME=value:\n${lines.join('\n')}`);
  }
}

function parsed(set: readonly string[]): ReadonlyMap<string, readonly string[]> {
  const values = new Map<string, string[]>();
  for (const text of set) {
    const cut = text.indexOf('=');
    if (cut <= 0) throw usage('--set takes a name and a value, as in --set API_KEY=value');
    const name = text.slice(0, cut);
    values.set(name, [...(values.get(name) ?? []), text.slice(cut + 1)]);
  }
  return values;
}

function aboutOf({ description = '', choices }: Pick<Input, 'description' | 'choices'>): string {
  return printable(`${description}${choices === undefined ? '' : ` [${choices.join(', ')}]`}`);
}

/** The command line of the server, or its URL. */
function lineOf({ command = '', args = [], url }: LaunchDefinition): string {
  return url ?? [command, ...args].join(' ');
}
