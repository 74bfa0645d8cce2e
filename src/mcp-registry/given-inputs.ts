import { secretNameOf } from '../config/server/without-secrets.ts';
import { SERVER_NAME_PATTERN } from '../model/names.ts';
import { RegistryError } from './registry-error.ts';
import { type Input, type InputValues, literal } from './server-json.ts';

type Ask = (name: string, input: Input) => Promise<string | null | undefined>;

/** Values of a server's inputs: the given value, else the default, else the answer of `ask`. Secrets become references. */
export class GivenInputs implements InputValues {
  readonly server: string;
  /** Values by secret name; the caller stores them before it adds the server. */
  readonly secrets = new Map<string, string>();
  /** Secret names by input name. */
  readonly secretNames: Record<string, string> = {};
  readonly missing = new Map<string, Input>();
  /** The inputs of the server. */
  readonly inputs = new Map<string, Input>();
  readonly #values: ReadonlyMap<string, readonly string[]>;
  readonly #ask: Ask;
  readonly #known = new Map<string, readonly string[] | null>();

  constructor(server: string, values: ReadonlyMap<string, readonly string[]>, ask: Ask = async () => null) {
    if (!SERVER_NAME_PATTERN.test(server)) throw new RegistryError('invalid', `"${server}" is no name of a server`);
    this.server = server;
    this.#values = values;
    this.#ask = ask;
  }

  /** Names with a given value that are not inputs of the server. */
  get unknown(): readonly string[] {
    return [...this.#values.keys()].filter((name) => !this.inputs.has(name));
  }

  async value(name: string, input: Input): Promise<readonly string[] | null> {
    const known = this.#known.get(name);
    if (known !== undefined) return known;
    this.inputs.set(name, input);
    const values = await this.#valuesOf(name, input);
    const wrong = values?.find((value) => input.choices !== undefined && !input.choices.includes(value));
    if (wrong !== undefined) throw new RegistryError('invalid', `${name} is one of: ${input.choices!.join(', ')}`);
    if (input.isSecret === true && values !== null && values.length > 1)
      throw new RegistryError('invalid', `${name} is a secret, and takes one value`);
    const isOfRegistry = !this.#values.has(name) && input.default !== undefined;
    const kept =
      input.isSecret === true ? values?.map((value) => this.#secret(name, value, isOfRegistry)) : values?.map(literal);
    this.#known.set(name, kept ?? null);
    return kept ?? null;
  }

  async #valuesOf(name: string, input: Input): Promise<readonly string[] | null> {
    const set = this.#values.get(name);
    if (set !== undefined) return set;
    if (input.default !== undefined) return [input.default];
    if (input.isRequired !== true) return null;
    const answer = await this.#ask(name, input);
    if (answer) return [answer];
    this.missing.set(name, input);
    return null;
  }

  /** Returns a reference to the stored secret. A reference that the user wrote stays one; in a default of the registry it is text. */
  #secret(name: string, value: string, isOfRegistry: boolean): string {
    if (!isOfRegistry && /^\$\{[^}]+\}$/.test(value)) return value;
    const secret = secretNameOf(this.server, name);
    this.secrets.set(secret, value);
    this.secretNames[name] = secret;
    return `\${secret:${secret}}`;
  }
}
