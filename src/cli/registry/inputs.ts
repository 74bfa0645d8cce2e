import { SERVER_NAME_PATTERN } from '../../model/names.ts';
import { printable } from '../../model/printable.ts';
import type { CommandInput } from '../command-input.ts';
import { secretAccess } from '../credentials/secrets.ts';
import { CommandError, EXIT } from '../exit-code.ts';
import { type Given, type Input, literal, type Runs } from './server-json.ts';

/** What of a registry or bundle is added, and what has to be kept as a secret first. */
export interface NewServer {
  readonly name: string;
  readonly definition: object;
  keepSecrets(): Promise<void>;
  /** Takes back what was put into the data folder for it, where it is not added then. */
  discard?(): Promise<void>;
}

/** What comes behind the `/`, in letters that a name may have. */
export function nameOf(whole: string): string {
  return (whole.split('/')[1] ?? whole).replaceAll(/[^A-Za-z0-9.-]+/g, '-').slice(0, 48);
}

/** Values of inputs: from `--set`, else from the person, else the default. Complains of all that lack at once. */
export class Inputs implements Given {
  readonly #input: CommandInput;
  readonly #server: string;
  readonly #secrets = new Map<string, string>();
  readonly #set = new Map<string, string[]>();
  readonly #used = new Set<string>();
  readonly #known = new Map<string, readonly string[] | null>();
  readonly #lacking: string[] = [];

  constructor(input: CommandInput, server: string, set: readonly string[]) {
    if (!SERVER_NAME_PATTERN.test(server)) throw usage(`"${server}" is no name of a server; give one with --as`);
    this.#input = input;
    this.#server = server;
    for (const text of set) {
      const cut = text.indexOf('=');
      if (cut <= 0) throw usage('--set takes a name and a value, as in --set API_KEY=value');
      const name = text.slice(0, cut);
      this.#set.set(name, [...(this.#set.get(name) ?? []), text.slice(cut + 1)]);
    }
  }

  async value(name: string, input: Input): Promise<readonly string[] | null> {
    const known = this.#known.get(name);
    if (known !== undefined) return known;
    this.#used.add(name);
    const values = await this.#valuesOf(name, input);
    const wrong = values?.find((value) => input.choices !== undefined && !input.choices.includes(value));
    if (wrong !== undefined) throw usage(`${name} is one of: ${input.choices!.join(', ')}`);
    const kept =
      values === null ? null : input.isSecret === true ? [this.#secret(name, values[0]!)] : values.map(literal);
    this.#known.set(name, kept);
    return kept;
  }

  /** The server that was made of them. Throws where some are missing. */
  server(definition: Runs): NewServer {
    this.complain();
    this.#input.terminal.err(`${printable(`${this.#server} will be: ${lineOf(definition)}`)}\n`);
    return { name: this.#server, definition, keepSecrets: () => this.#keepSecrets() };
  }

  complain(): void {
    const known = [...this.#used].join(', ');
    const unknown = [...this.#set.keys()].filter((name) => !this.#used.has(name));
    if (unknown.length > 0)
      throw usage(
        `${unknown.join(', ')} of --set is no input of this server${known === '' ? '' : `; it has: ${known}`}`,
      );
    if (this.#lacking.length === 0) return;
    throw usage(
      `values are missing; give them with --set NAME=value:\n${this.#lacking.map((line) => `    ${line}`).join('\n')}`,
    );
  }

  async #valuesOf(name: string, input: Input): Promise<readonly string[] | null> {
    const { isRequired = false, isSecret = false, default: usual, description = '', choices } = input;
    const set = this.#set.get(name);
    if (set !== undefined) return set;
    if (usual !== undefined) return [usual];
    if (!isRequired) return null;
    const about = printable(`${description}${choices === undefined ? '' : ` [${choices.join(', ')}]`}`);
    const answer = await this.#input.terminal.ask?.({ id: name, description: about || 'Value', password: isSecret });
    if (answer) return [answer];
    this.#lacking.push(`${name}  ${about}${isSecret ? ' (a secret)' : ''}`);
    return null;
  }

  async #keepSecrets(): Promise<void> {
    if (this.#secrets.size === 0) return;
    const store = await secretAccess(this.#input);
    try {
      for (const [name, value] of this.#secrets) await store.changes.put(name, value);
    } finally {
      await store.close();
    }
  }

  /** The reference to it; a reference that the user wrote stays one. */
  #secret(name: string, value: string): string {
    if (/^\$\{[^}]+\}$/.test(value)) return value;
    const secret = `${this.#server}-${name.toLowerCase()}`.replaceAll(/[^A-Za-z0-9_.-]/g, '-');
    this.#secrets.set(secret, value);
    return `\${secret:${secret}}`;
  }
}

/** What runs, or its address. */
function lineOf({ command = '', args = [], url }: Runs): string {
  return url ?? [command, ...args].join(' ');
}

function usage(message: string): CommandError {
  return new CommandError(EXIT.usage, message);
}
