import { homedir } from 'node:os';
import { basename, resolve } from 'node:path';
import { SECRET_NAME } from '../../model/names.ts';
import type { ClientId } from '../client.ts';
import { type Problems, type Source, suggest, type TextSpan } from '../problem/problem.ts';
import { fromHome } from './from-home.ts';
import type { ScalarNode } from './node.ts';
import { isReadFailure, type NamedFiles } from './read-source.ts';

/** Values of `trunkline secret` by name; null for a value that cannot be decrypted. */
export type StoredSecrets = ReadonlyMap<string, string | null>;

export interface ExpanderOptions {
  readonly source: Source;
  readonly problems: Problems;
  readonly client: ClientId;
  /** Folder of the configuration file: base of `${file:…}`. */
  readonly fileFolder: string;
  readonly workspaceFolder: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The known answers to inputs. */
  readonly inputs: ReadonlyMap<string, string>;
  /** The declared inputs by id, for suggestions. */
  readonly declared?: ReadonlyMap<string, unknown> | undefined;
  /** Values of `${secret:…}`; undefined if no secret store is read. */
  readonly stored?: StoredSecrets | undefined;
  /** Collects inserted values that may be secret. */
  readonly secrets: Set<string>;
  /** Keeps references to values that may be secret or differ between machines, for definitions that are stored. */
  readonly keepsReferences?: boolean | undefined;
  /** Reads the files of `${file:…}`. */
  readonly files: NamedFiles;
}

const MAX_NAMED_FILE_BYTES = 1024 * 1024;
/** Maximum number of problems reported for one string. */
const MAX_REPORTED = 20;
/** `$${`, `${…}` up to the first brace, and an unclosed `${`. Bounded, so that any text takes linear time. */
const REFERENCE = /\$\$\{|\$\{([^}]{0,1024})\}|\$\{/g;
/** The same, with further syntax of single clients. */
const REFERENCE_OF: Partial<Record<ClientId, RegExp>> = {
  opencode: /\$\$\{|\$\{([^}]{0,1024})\}|\$\{|\{((?:env|file):[^{}]{0,1024})\}/g,
  /** Only in variables. */
  gemini: /\$\$\{|\$\{([^}]{0,1024})\}|\$\{|\$([A-Za-z_][A-Za-z0-9_]*)/g,
  /** Continue's secrets are read from variables of these names, since its own secret store is not available here. */
  continue: /\$\$\{|\$\{\{\s*(?:secrets|inputs)\.([A-Za-z_][A-Za-z0-9_]*)\s*\}\}|\$\{([^}]{0,1024})\}|\$\{/g,
  /** LibreChat replaces these for each of its users; here they are variables. */
  librechat: /\$\$\{|\$\{([^}]{0,1024})\}|\$\{|\{\{([A-Za-z_][A-Za-z0-9_]*)\}\}/g,
};
/** References that are neither variables nor secrets. */
const SURROUNDING = /^(?:workspaceFolder|workspaceFolderBasename|userHome|pathSeparator|\/)$/;
const NAME = /^[A-Za-z_][A-Za-z0-9_]*$/;
/** Variables that every process has and whose values are not secret. */
const ORDINARY =
  /^(?:PATH|HOME|USER|LOGNAME|SHELL|PWD|OLDPWD|LANG|LC_\w+|TZ|TERM|TMPDIR|TEMP|TMP|HOSTNAME|XDG_\w+|APPDATA)$/;

/**
 * Replaces the references in the strings of one file, in one pass: an inserted value is not expanded again, so a value that
 * contains `${` stays as it is.
 */
export class Expander {
  readonly #options: ExpanderOptions;

  constructor(options: ExpanderOptions) {
    this.#options = options;
  }

  get keepsReferences(): boolean {
    return this.#options.keepsReferences === true;
  }

  /** The path with the home folder for a leading `~/`. */
  fromHome(path: string): string {
    return fromHome(path, this.#options.env);
  }

  /** The node's value with all references replaced; null after a problem. `user`: the key that needs it, for messages. */
  expand(node: ScalarNode, user: string, shellNames = false): string | null {
    const { text } = node;
    if (!text.includes('$') && !text.includes('{')) return text;
    const pattern = patternOf(this.#options.client, shellNames);
    let result = '';
    let from = 0;
    let searched = node.span.start;
    let failures = 0;
    for (const match of text.matchAll(pattern)) {
      result += text.slice(from, match.index);
      from = match.index + match[0].length;
      if (match[0] === '$${') {
        result += this.keepsReferences ? '$${' : '${';
        continue;
      }
      const span = this.#spanOf(match[0], node.span, searched);
      searched = span.end;
      const value = this.#reference(match[0], match[1] ?? match[2], span, user);
      if (value !== null) result += value;
      else if (++failures === MAX_REPORTED) break;
    }
    return failures > 0 ? null : result + text.slice(from);
  }

  /** Like `expand`, for settings that locate the secret store: it is read after them, so they cannot refer to secrets. */
  expandRefusingSecrets(node: ScalarNode, user: string): string | null {
    if (!node.text.includes('${secret:')) return this.expand(node, user);
    const { source, problems } = this.#options;
    const fix = 'write it as ${NAME} or ${file:…}';
    problems.error('TL1208', source, node.span, `${user} is needed before any secret can be read`, fix);
    return null;
  }

  /**
   * Like `expand`, but keeps references to values that may be secret, without their defaults. For nodes that `expand` can
   * expand.
   */
  expandKeepingReferences(node: ScalarNode): string {
    return node.text.replaceAll(
      patternOf(this.#options.client, false),
      (whole: string, first?: string, second?: string) => {
        if (whole === '$${') return '${';
        const inner = first ?? second ?? '';
        const open = SURROUNDING.test(inner) || ORDINARY.test(inner.replace(/^env:/, ''));
        if (!open) return `\${${inner.split(':-')[0]!}}`;
        return this.#reference(whole, inner, node.span, '') ?? whole;
      },
    );
  }

  /** The value of a variable, for keys that hold the name of one. */
  variable(node: ScalarNode, user: string): string | null {
    if (this.keepsReferences && NAME.test(node.text)) return `\${${node.text}}`;
    const value = this.#options.env[node.text];
    if (value === undefined && !/^[A-Z_][A-Z0-9_]*$/.test(node.text)) {
      // The text is most likely the secret itself, so the error omits it.
      const { source, problems } = this.#options;
      problems.error('TL1303', source, node.span, `${user} must be the name of a variable that is set`);
      return null;
    }
    if (value === undefined) return this.#unset(node.text, node.span, user);
    this.#addSecret(node.text, value);
    return value;
  }

  #reference(whole: string, inner: string | undefined, span: TextSpan, user: string): string | null {
    const { source, problems, workspaceFolder } = this.#options;
    if (inner === undefined) {
      const fix = 'add "}", or write $${ for a literal ${';
      problems.error('TL1201', source, span, `this reference is never closed (in ${user})`, fix);
      return null;
    }
    if (inner === 'workspaceFolder') return workspaceFolder;
    if (inner === 'workspaceFolderBasename') return basename(workspaceFolder);
    if (inner === 'userHome') return this.#options.env['HOME'] ?? homedir();
    if (inner === 'pathSeparator' || inner === '/') return '/';
    const colon = inner.indexOf(':');
    if (colon < 0 || inner[colon + 1] === '-') return this.#environment(inner, whole, span, user);
    const kind = inner.slice(0, colon);
    const rest = inner.slice(colon + 1);
    if (kind === 'env') return this.#environment(rest, whole, span, user);
    if (this.keepsReferences && ['input', 'file', 'secret'].includes(kind)) return this.#kept(kind, rest);
    if (kind === 'input') return this.#input(rest, span, user);
    if (kind === 'file') return this.#file(rest, span, user);
    if (kind === 'secret') return this.#secret(rest, span, user);
    const near = suggest(kind, ['env', 'input', 'file', 'secret']);
    const fix = near === null ? undefined : `did you mean \${${near}:${rest}}?`;
    const message = `references of the kind ${JSON.stringify(kind)} are unknown (in ${user})`;
    problems.error('TL1202', source, span, message, fix);
    return null;
  }

  /** The reference in a form that is valid in all of our files. */
  #kept(kind: string, rest: string): string {
    const path = rest.startsWith('~/') ? rest : resolve(this.#options.fileFolder, rest);
    return `\${${kind}:${kind === 'file' ? path : rest}}`;
  }

  #environment(inner: string, whole: string, span: TextSpan, user: string): string | null {
    const split = inner.indexOf(':-');
    const name = split < 0 ? inner : inner.slice(0, split);
    const fallback = split < 0 ? null : inner.slice(split + 2);
    if (!NAME.test(name) || fallback?.includes('${')) {
      const why = NAME.test(name) ? 'a default cannot hold a reference' : 'this is not the name of a variable';
      const dotted = /^env\.(\w+)$/.exec(name)?.[1];
      const fix = dotted === undefined ? undefined : `write \${env:${dotted}}`;
      this.#options.problems.error('TL1201', this.#options.source, span, `${why}: ${whole} (in ${user})`, fix);
      return null;
    }
    if (this.keepsReferences) return `\${${inner}}`;
    const value = this.#options.env[name];
    if (value !== undefined && (value !== '' || fallback === null)) {
      this.#addSecret(name, value);
      return value;
    }
    return fallback ?? this.#unset(name, span, user);
  }

  #unset(name: string, span: TextSpan, user: string): null {
    const { env, source, problems } = this.#options;
    // Short names resemble others by accident.
    const near = name.length < 4 ? null : (suggest(name, Object.keys(env)) ?? sameEnds(name, Object.keys(env)));
    const instead = near === null ? '' : `; ${near} is set, did you mean that?`;
    const message = `environment variable ${name} is not set (used by ${user})${instead}`;
    problems.error('TL1203', source, span, message, `export ${name}=...   or   \${${name}:-}   for an empty default`);
    return null;
  }

  #input(id: string, span: TextSpan, user: string): string | null {
    const value = this.#options.inputs.get(id);
    if (value === undefined) {
      const { source, problems, declared } = this.#options;
      const fix = `export ${inputVariable(id)}=...   or   start in a terminal, where it is asked for`;
      const others = declared === undefined || declared.has(id) ? [] : [...declared.keys()];
      const near = suggest(id, others) ?? (others.length === 1 ? others[0]! : null);
      const instead = near === null ? '' : `; "inputs" has ${JSON.stringify(near)}, did you mean that?`;
      const message = `the input ${JSON.stringify(id)} has no value (used by ${user})${instead}`;
      problems.error('TL1204', source, span, message, fix);
      return null;
    }
    this.#addSecret('', value);
    return value;
  }

  #file(path: string, span: TextSpan, user: string): string | null {
    const { fileFolder, source, problems } = this.#options;
    const file = resolve(fileFolder, this.fromHome(path));
    const bytes = this.#options.files.read(file, MAX_NAMED_FILE_BYTES);
    if (isReadFailure(bytes)) {
      problems.error('TL1205', source, span, `${file}: ${bytes.message} (used by ${user})`);
      return null;
    }
    const value = bytes.toString('utf8').replace(/\r?\n$/, '');
    this.#addSecret('', value);
    return value;
  }

  #secret(name: string, span: TextSpan, user: string): string | null {
    const { source, problems, stored } = this.#options;
    if (!SECRET_NAME.test(name)) {
      problems.error('TL1201', source, span, `this is not the name of a secret: \${secret:${name}} (in ${user})`);
      return null;
    }
    const value = stored?.get(name) ?? null;
    if (value !== null) {
      this.#addSecret('', value);
      return value;
    }
    const message =
      stored === undefined
        ? `the secret ${name} cannot be had here, where no store is read (used by ${user})`
        : stored.has(name)
          ? `the secret ${name} cannot be opened: the key that sealed it is gone (used by ${user})`
          : `there is no secret ${name} (used by ${user})${nearSecret(name, stored)}`;
    problems.error('TL1208', source, span, message, `trunkline secret set ${name}`);
    return null;
  }

  #addSecret(name: string, value: string): void {
    if (!ORDINARY.test(name)) this.#options.secrets.add(value);
  }

  /** The place of the reference in the file. With escapes before it, the offset in the value differs from that in the file. */
  #spanOf(written: string, within: TextSpan, from: number): TextSpan {
    const start = this.#options.source.text.indexOf(written, from);
    return start < 0 || start >= within.end ? within : { start, end: start + written.length };
  }
}

/** Converts references in the syntax of single clients to ours, which expand to the same text. */
export function withOurReferences(text: string, client: ClientId, shellNames: boolean): string {
  return text.replaceAll(patternOf(client, shellNames), (whole: string, first?: string, second?: string) =>
    /^\$\$?\{(?!\{)/.test(whole) ? whole : `\${${first ?? second}}`,
  );
}

function patternOf(client: ClientId, shellNames: boolean): RegExp {
  return (client === 'gemini' && !shellNames ? null : REFERENCE_OF[client]) ?? REFERENCE;
}

function nearSecret(name: string, stored: StoredSecrets): string {
  const near = suggest(name, [...stored.keys()]);
  return near === null ? '' : `; there is ${near}, did you mean that?`;
}

/** Finds a name with the same first and last word, such as `GITHUB_TOKEN` for `GITHUB_PERSONAL_ACCESS_TOKEN`. */
function sameEnds(name: string, candidates: readonly string[]): string | null {
  const ends = (text: string): string => text.toUpperCase().replace(/^([^_]+)_(?:.*_)?([^_]+)$/, '$1 $2');
  return candidates.find((candidate) => name.includes('_') && ends(candidate) === ends(name)) ?? null;
}

/** `api-key` → `TRUNKLINE_INPUT_API_KEY`. */
export function inputVariable(id: string): string {
  return `TRUNKLINE_INPUT_${id.toUpperCase().replaceAll(/[^A-Z0-9]/g, '_')}`;
}
