import { createHash } from 'node:crypto';
import { foldedName, SERVER_NAME_PATTERN } from '../../model/names.ts';
import type { RawDefinition } from '../files/containers.ts';
import type { Problems, Source, TextSpan } from '../problem/problem.ts';

/** The place where a name was taken, over all files. */
export interface TakenName {
  readonly written: string;
  readonly source: Source;
  readonly span: TextSpan;
}

/**
 * Gives the definitions of one file names that are valid in paths and tool names; with `strict`, `readServer` refuses any other
 * name. Refuses names that a client would confuse: those that are equal after adaptation, or that differ only in case or in `-`
 * and `_` (Codex rewrites one to the other). `taken` has the names of earlier files and gets those of this one.
 */
export function nameServers(
  definitions: readonly RawDefinition[],
  strict: boolean,
  source: Source,
  problems: Problems,
  taken: Map<string, TakenName>,
): Map<RawDefinition, string> {
  const names = new Map<RawDefinition, string>();
  for (const definition of definitions) {
    const { name: written, nameSpan: span } = definition;
    const name = serverNameOf(written);
    if (name !== written && !strict) {
      const message = `the server ${JSON.stringify(written)} is called ${JSON.stringify(name)} here`;
      problems.warn('TL1403', source, span, message);
    }
    const first = taken.get(foldedName(name));
    if (first === undefined) taken.set(foldedName(name), { written, source, span });
    else problems.error('TL1404', source, span, confusion(written, source, first));
    names.set(definition, name);
  }
  return names;
}

function confusion(written: string, source: Source, first: TakenName): string {
  const { line } = first.source.position(first.span.start);
  const where = first.source === source ? `line ${line}` : `line ${line} of ${first.source.file}`;
  if (first.written === written) return `the server ${JSON.stringify(written)} is defined in ${where} already`;
  return `clients would confuse the server ${JSON.stringify(written)} with ${JSON.stringify(first.written)} (${where})`;
}

/** The nearest name that matches the pattern; the name itself if it matches. */
export function serverNameOf(written: string): string {
  if (SERVER_NAME_PATTERN.test(written)) return written;
  const plain = written
    .normalize('NFKD')
    .replaceAll(/\p{M}/gu, '')
    .replaceAll(/[^A-Za-z0-9._-]+/g, '-')
    .replaceAll(/_{2,}/g, '_')
    .replace(/^[^A-Za-z0-9]+/, '');
  const whole = withoutEnd(plain);
  const cut = whole.length <= 64 ? whole : `${withoutEnd(whole.slice(0, 55))}-${hash(written)}`;
  return SERVER_NAME_PATTERN.test(cut) ? cut : `server-${hash(written)}`;
}

/** A loop, since a regular expression anchored to the end takes quadratic time on a long name. */
function withoutEnd(name: string): string {
  let end = name.length;
  while (end > 0 && (name[end - 1] === '-' || name[end - 1] === '_')) end--;
  return name.slice(0, end);
}

function hash(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 8);
}
