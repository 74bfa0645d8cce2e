import { dirname, resolve } from 'node:path';
import type { DesiredState } from '../model/desired-state.ts';
import { foldedName } from '../model/names.ts';
import { secretsOf } from '../model/sanitized-definition.ts';
import { secretForms } from '../model/secret.ts';
import type { Server } from '../model/server.ts';
import { folderOf } from './client.ts';
import type { StoredSecrets } from './document/expand.ts';
import { answerInputs, type DeclaredInputs, declaredInputs, type InputPrompt } from './document/inputs.ts';
import { secretsIn } from './document/mask-secrets.ts';
import type { ObjectNode } from './document/node.ts';
import { parseSource } from './document/parse.ts';
import { NamedFiles, readSource } from './document/read-source.ts';
import { checkShape, RESERVED_KEYS } from './document/shape.ts';
import { findDefinitions, foldersWithServers, isContainerKey, isSetting, type Layout } from './files/containers.ts';
import { type ConfigProblem, Problems, Source, suggest } from './problem/problem.ts';
import { configJsonSchema } from './schema-json.ts';
import type { ReadingContext } from './server/field-reader.ts';
import { isSelfReference } from './server/is-self-reference.ts';
import { argvServer, misconfiguredServer } from './server/plain-server.ts';
import { hasUrl, readServer, serverContext } from './server/read-server.ts';
import { nameServers, type TakenName } from './server/server-names.ts';
import { readAgents } from './settings/agents.ts';
import { readCluster } from './settings/cluster.ts';
import { NOWHERE, type Overrides, readSettings, type Setting, type Settings } from './settings/settings.ts';
import { readTelemetry } from './settings/telemetry.ts';

export interface LoadOptions {
  /** Files to read, relative to `cwd`. Several are read as one; a server or setting may be in one of them only. */
  readonly files?: readonly string[];
  /** The files that identify the gateway, if they are not read. */
  readonly serves?: readonly string[];
  /** Documents without a file, read after the files as if they were Trunkline's own. */
  readonly inline?: readonly InlineSource[];
  readonly cwd: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The command after `--` on the command line: a server that needs no file. */
  readonly argvCommand?: readonly string[];
  /** Variables for `argvCommand`. */
  readonly argvEnv?: Readonly<Record<string, string>>;
  /** Asks the user for `${input:…}`; absent without a terminal. */
  readonly inputs?: InputPrompt;
  /** Reads the secrets from the store at `place`; called only if the documents refer to `${secret:…}`. */
  readonly secrets?: (place: SecretStoreSettings) => Promise<StoredSecrets>;
  readonly overrides?: Overrides;
  /** Keep references in the definitions, which are stored elsewhere. */
  readonly keepsReferences?: boolean;
  /** A problem in one definition refuses the whole configuration. */
  readonly strict?: boolean;
}

/** The settings that locate the secret store. */
export type SecretStoreSettings = Pick<DesiredState, 'dataDir' | 'cluster'>;

/** A document that a program supplies. */
interface InlineSource {
  /** Replaces the file name in problems: a name in angle brackets, such as `<createGateway>`. */
  readonly label: string;
  /** In any of the three syntaxes. Relative paths in it start at `cwd`. */
  readonly text: string;
}

export interface LoadFindings {
  readonly warnings: readonly ConfigProblem[];
  /** Every file the result depends on, absolute: the configuration, `envFile`s, `${file:…}`, certificates. */
  readonly watched: readonly string[];
  /** Values that logs must not contain, longest first. */
  readonly secrets: readonly string[];
}

export type ConfigResult =
  | ({
      readonly ok: true;
      readonly state: DesiredState;
      /** Of all documents. */
      readonly inputs: DeclaredInputs;
      /** Problems of single definitions: their servers are misconfigured, and the others start. */
      readonly misconfigured: readonly ConfigProblem[];
    } & LoadFindings)
  | ({ readonly ok: false; readonly problems: readonly ConfigProblem[] } & LoadFindings);

/**
 * Reads the files into desired state, or reports all their problems at once. Never throws because of the content of a file,
 * executes nothing, and takes bounded time on any content.
 */
export function loadConfig(options: LoadOptions): Promise<ConfigResult> {
  return new Load(options).run();
}

/** A document whose settings are known and whose definitions are not read yet. */
interface OpenedDocument {
  readonly root: ObjectNode;
  readonly layout: Layout;
  readonly context: ReadingContext;
}

/** One reading of a configuration: collects documents and settings of all files, then reads the definitions. */
class Load {
  readonly #options: LoadOptions;
  readonly #problems = new Problems();
  readonly #servers = new Map<string, Server>();
  readonly #definedNames = new Set<string>();
  readonly #taken = new Map<string, TakenName>();
  readonly #settings = new Map<string, Setting>();
  /** Absolute paths. */
  readonly #files: readonly string[];
  readonly #watched = new NamedFiles();
  readonly #secrets = new Set<string>();
  readonly #documents: OpenedDocument[] = [];
  readonly #stored = new Map<string, string | null>();
  readonly #misconfigured: ConfigProblem[] = [];
  #inputs: DeclaredInputs = new Map();

  constructor(options: LoadOptions) {
    this.#options = options;
    this.#files = (options.files ?? []).map((file) => resolve(options.cwd, file));
  }

  async run(): Promise<ConfigResult> {
    const { inline = [], argvCommand, cwd } = this.#options;
    for (const file of this.#files) await this.#file(file);
    for (const { label, text } of inline) await this.#source(new Source(label, text), cwd, cwd, true);
    await this.#askForSecrets();
    const { listen } = this.#ignoringProblems(() => this.#someSettings());
    for (const document of this.#documents) this.#definitions(document, listen);
    if (argvCommand !== undefined) this.#command(argvCommand);
    return this.#result();
  }

  async #file(file: string): Promise<void> {
    this.#watched.add(file);
    const source = readSource(file);
    if (!(source instanceof Source)) {
      this.#problems.error(source.code, new Source(file, ''), null, source.message, source.fix);
      return;
    }
    await this.#source(source, dirname(file), folderOf(file), false);
  }

  #command(words: readonly string[]): void {
    const made = argvServer(words, this.#options.cwd, this.#options.argvEnv);
    if (made === null) {
      this.#problems.error('TL1406', NOWHERE, null, 'there is no command after "--"');
      return;
    }
    const taken = this.#taken.get(foldedName(made.name));
    if (taken !== undefined) {
      const message = `the command after "--" is called ${JSON.stringify(made.name)}, as a server of ${taken.source.file} is`;
      this.#problems.error('TL1404', NOWHERE, null, message, 'rename the server in the file');
      return;
    }
    this.#servers.set(made.name, made);
    for (const secret of secretsOf(made)) this.#secrets.add(secret);
    this.#definedNames.add(made.name);
  }

  #result(): ConfigResult {
    const problems = this.#problems;
    const { agents, keys } = readAgents(this.#settings.get('agents'), this.#definedNames, problems);
    const { overrides = {}, env } = this.#options;
    const longest = [...this.#servers.values()].reduce(
      (most, { timeoutMs, toolTimeoutMs }) =>
        [timeoutMs, ...toolTimeoutMs.values()].reduce((a, b) => Math.max(a, b), most),
      0,
    );
    const settings = readSettings(this.#settings, overrides, agents.size > 0, longest, problems);
    const { cluster, secrets: clusterSecrets } = readCluster({
      setting: this.#settings.get('cluster'),
      nats: overrides.nats,
      env,
      agents,
      problems,
      files: this.#watched,
    });
    const {
      secrets: ofTelemetry,
      controlToken: token,
      ...telemetry
    } = readTelemetry(this.#settings, settings, problems);
    const control = { ...settings.control, token };
    const forms = [...this.#secrets, ...keys, ...clusterSecrets, ...ofTelemetry].flatMap(secretForms);
    const secrets = [...new Set(forms)].sort((a, b) => b.length - a.length || (a < b ? -1 : 1));
    const findings = { warnings: this.#inOrder(problems.warnings), watched: [...this.#watched], secrets };
    const misconfigured = this.#inOrder(this.#misconfigured);
    if (problems.failed || (this.#options.strict === true && misconfigured.length > 0)) {
      return { ok: false, problems: this.#inOrder([...problems.errors, ...misconfigured]), ...findings };
    }
    return {
      ok: true,
      state: { servers: this.#servers, agents, ...settings, ...telemetry, control, cluster, files: this.#files },
      inputs: this.#inputs,
      misconfigured,
      ...findings,
    };
  }

  /** In the order of the files, and by place in each. */
  #inOrder(problems: readonly ConfigProblem[]): ConfigProblem[] {
    const read = [...this.#files, ...(this.#options.inline ?? []).map(({ label }) => label)];
    const rank = (file: string) => read.indexOf(file);
    return problems.toSorted((a, b) => rank(a.file) - rank(b.file) || a.line - b.line || a.column - b.column);
  }

  async #source(source: Source, fileFolder: string, folder: string, ours: boolean): Promise<void> {
    const root = await parseSource(source, this.#problems);
    if (root === null) return;
    const found = findDefinitions(root, source, this.#problems, this.#options.cwd);
    const layout = ours ? { ...found, ours } : found;
    const { env, inputs: prompt, secrets } = this.#options;
    const declared = declaredInputs(layout.inputsOf);
    this.#inputs = new Map([...declared, ...this.#inputs]);
    const inputs = await answerInputs(declared, source.text, env, prompt ?? null);
    const context = serverContext({
      source,
      problems: this.#problems,
      client: layout.client,
      strict: layout.ours,
      env,
      inputs,
      declared,
      stored: secrets === undefined ? undefined : this.#stored,
      keepsReferences: this.#options.keepsReferences,
      fileFolder,
      folder,
      secrets: this.#secrets,
      files: this.#watched,
    });
    if (!layout.isRootMap) this.#topLevel(root, layout, context);
    this.#documents.push({ root, layout, context });
  }

  /** Reads the settings that locate the secret store and asks for the secrets, before reading all settings. */
  async #askForSecrets(): Promise<void> {
    const { secrets, overrides, env } = this.#options;
    const referred = this.#documents.some(({ context }) => context.source.text.includes('${secret:'));
    if (secrets === undefined || !referred) return;
    const setting = this.#settings.get('cluster');
    const agents = { has: () => true };
    const reading = { setting, nats: overrides?.nats, env, agents, problems: this.#problems, files: this.#watched };
    const place = this.#ignoringProblems(() => ({
      dataDir: this.#someSettings().dataDir,
      cluster: readCluster(reading).cluster,
    }));
    for (const [name, value] of await secrets(place)) this.#stored.set(name, value);
  }

  /** The settings that depend neither on agents nor on servers. */
  #someSettings(): Settings {
    return readSettings(this.#settings, this.#options.overrides ?? {}, false, 0, this.#problems);
  }

  /** Drops the problems of a reading that `#result` repeats. */
  #ignoringProblems<T>(read: () => T): T {
    let value!: T;
    this.#problems.capture(() => {
      value = read();
    });
    return value;
  }

  /** `listen`: the address of this gateway. */
  #definitions({ root, layout, context }: OpenedDocument, listen: DesiredState['listen']): void {
    const { ours, definitions } = layout;
    const { source, folder } = context;
    const problems = this.#problems;
    const names = nameServers(definitions, ours, source, problems, this.#taken);
    for (const [definition, name] of names) {
      this.#definedNames.add(name);
      let server: Server | null = null;
      const wrong = problems.capture(() => {
        const { folder: own = folder } = definition;
        server = readServer(definition, name, own === folder ? context : { ...context, folder: own });
        if (server === null || this.#options.keepsReferences === true || !isSelfReference(server.transport, listen))
          return;
        server = null;
        problems.warn('TL1414', source, definition.nameSpan, `${definition.path} is this gateway, and is left out`);
      });
      this.#misconfigured.push(...wrong);
      if (wrong.length > 0 || server === null) {
        for (const secret of secretsIn(definition.node)) this.#secrets.add(secret);
      }
      if (wrong.length > 0) {
        const origin = { file: source.file, ...source.position(definition.nameSpan.start) };
        server = misconfiguredServer(name, origin, wrong, hasUrl(definition));
      }
      if (server !== null) this.#servers.set(name, server);
    }
    const misspelt = ours && this.#problems.errors.some(({ code, file }) => code === 'TL1301' && file === source.file);
    const empty = !misspelt && definitions.length === 0 && layout.containers.length === 0;
    if (empty && !root.members.some(({ key }) => isSetting(key))) {
      const keys = root.members
        .map(({ key }) => suggest(key, ['mcpServers', 'servers', 'mcp_servers']))
        .filter((near) => near !== null);
      const [folder] = foldersWithServers(root);
      const elsewhere =
        folder === undefined ? undefined : `start Trunkline in a folder that has servers here, as ${folder}`;
      const fix = keys.length === 0 ? elsewhere : `did you mean ${JSON.stringify(keys[0])}?`;
      const span = { start: root.span.start, end: root.span.start + 1 };
      problems.error('TL1401', source, span, 'no servers are defined here', fix);
    }
  }

  #topLevel(root: ObjectNode, { ours, client }: Layout, { source, expander, folder }: ReadingContext): void {
    const schema = configJsonSchema();
    const context = { source, problems: this.#problems, strict: ours, ignored: new Set<string>() };
    for (const member of root.members) {
      const { key, keySpan, value } = member;
      if (isContainerKey(key) && !RESERVED_KEYS[key]) continue;
      const known = Object.hasOwn(schema.properties ?? {}, key);
      if (client.isSettings && !ours) continue;
      if (!known) {
        const { $defs: _, ...top } = schema;
        checkShape({ kind: 'object', span: root.span, members: [member] }, { ...top, required: [] }, '', context);
        continue;
      }
      const first = this.#settings.get(key);
      if (first !== undefined) {
        this.#problems.error('TL1103', source, keySpan, `${key} stands in ${first.source.file} already`);
      }
      checkShape(value, schema.properties![key]!, key, context);
      this.#settings.set(key, { member, source, expander, folder });
    }
  }
}
