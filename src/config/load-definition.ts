import { secretForms } from '../model/secret.ts';
import { RUN_TIME, type Server } from '../model/server.ts';
import { clientOf } from './client.ts';
import type { StoredSecrets } from './document/expand.ts';
import { answerInputs, declaredInputs } from './document/inputs.ts';
import { secretsIn } from './document/mask-secrets.ts';
import { isString, member, type ObjectNode } from './document/node.ts';
import { parseSource } from './document/parse.ts';
import type { NamedFiles } from './document/read-source.ts';
import { CheckedFiles } from './files/file-checks.ts';
import { type ConfigProblem, Problems, Source } from './problem/problem.ts';
import { type Need, needsOf, readsOf } from './server/definition-needs.ts';
import { readServer, serverContext } from './server/read-server.ts';
import { nameServers } from './server/server-names.ts';

/** One definition without a file: the value of a server in a file, as a JSON object. */
interface DefinitionSource {
  readonly text: string;
  /** Name of the server; null if the text contains it, as `name`. */
  readonly name: string | null;
  /** Base of relative paths. */
  readonly folder: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly stored?: StoredSecrets | undefined;
  /** Called with what the definition reads from the gateway, before any of it is read. Throws to end the reading. */
  readonly mayRead?: (reads: readonly Need[]) => void;
  /** Whether the file system of a file responds; files of others are not read. Default: all respond. */
  readonly responds?: (file: string) => Promise<boolean>;
}

interface Findings {
  readonly warnings: readonly ConfigProblem[];
  /** Values that logs must not contain, longest first. */
  readonly secrets: readonly string[];
}

export type DefinitionResult =
  | ({ readonly ok: true; readonly server: Server; readonly needs: readonly Need[] } & Findings)
  | ({ readonly ok: false; readonly problems: readonly ConfigProblem[] } & Findings);

/**
 * Reads one definition as in a file of Trunkline's own: the same keys, bounds and problems, with lines and columns of the text.
 * `TRUNKLINE_INPUT_…` provides the values of `${input:…}`.
 */
export async function loadDefinition(definition: DefinitionSource): Promise<DefinitionResult> {
  const files = new CheckedFiles(definition.responds ?? (async () => true));
  for (;;) {
    const result = await readDefinition(definition, files);
    if (!(await files.check())) return result;
  }
}

async function readDefinition(
  { text, name: given, folder, env, stored, mayRead }: DefinitionSource,
  files: NamedFiles,
): Promise<DefinitionResult> {
  const problems = new Problems();
  const source = new Source(RUN_TIME, text);
  const secrets = new Set<string>();
  const root = await parseSource(source, problems);
  if (root === null) return failed(problems, secrets);
  const named = nameIn(root, given, source, problems);
  if (named === null) return failed(problems, secrets);
  mayRead?.(readsOf(root));
  const context = serverContext({
    source,
    problems,
    client: clientOf(RUN_TIME, []),
    strict: true,
    env,
    stored,
    inputs: await answerInputs(declaredInputs(root), text, env, null),
    fileFolder: folder,
    folder,
    secrets,
    files,
  });
  const node = { ...root, members: root.members.filter(({ key }) => key !== 'name') };
  const definition = { ...named, node, path: named.name };
  const [name = ''] = nameServers([definition], true, source, problems, new Map()).values();
  const server = readServer(definition, name, context);
  if (server === null || problems.failed) {
    for (const secret of secretsIn(node)) secrets.add(secret);
    return failed(problems, secrets);
  }
  return { ok: true, server, needs: needsOf(node, server), ...findings(problems, secrets) };
}

function nameIn(root: ObjectNode, name: string | null, source: Source, problems: Problems) {
  const found = member(root, 'name');
  if (found === undefined) {
    if (name !== null) return { name, nameSpan: { start: root.span.start, end: root.span.start + 1 } };
    problems.error('TL1304', source, root.span, 'the server needs the key "name"');
    return null;
  }
  const { value } = found;
  if (!isString(value)) {
    problems.error('TL1302', source, value.span, 'name must be a string');
    return null;
  }
  if (name !== null && value.text !== name) {
    problems.error('TL1306', source, value.span, `name is another than that of the path, ${JSON.stringify(name)}`);
    return null;
  }
  return { name: value.text, nameSpan: value.span };
}

function failed(problems: Problems, secrets: ReadonlySet<string>): DefinitionResult {
  return { ok: false, problems: problems.errors, ...findings(problems, secrets) };
}

function findings(problems: Problems, secrets: ReadonlySet<string>): Findings {
  const forms = new Set([...secrets].flatMap(secretForms));
  return { warnings: problems.warnings, secrets: [...forms].sort((a, b) => b.length - a.length) };
}
