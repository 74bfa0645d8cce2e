import type { Finding, FindingKind } from '../../model/drift.ts';
import { decodeString } from '../../protocol/fields.ts';
import { skipString } from '../../protocol/skip.ts';
import { hiddenCharacters, printable } from './hidden-characters.ts';
import type { OtherNames } from './other-names.ts';

/** Bytes of a definition that are scanned; a longer one gets the finding `oversized`. */
const MAX_BYTES = 64 * 1024;
const MAX_FINDINGS = 20;
/** The limit of all matches, repeated ones included: each costs a pointer, which grows with the depth. */
const MAX_LOOKS = 200;
const MAX_POINTER = 400;
/** A run of letters and digits of this length is not a word but encoded text. */
const MAX_WORD = 200;

/** One word of a text: a run of letters, digits, `_` and `-`. */
interface Word {
  /** In lower case, without apostrophes. */
  readonly word: string;
  readonly at: number;
}

/**
 * Scans all texts of a definition for prompt injection: hidden characters, instructions, prompt frames, paths of secrets, names
 * of other servers. Heuristic, linear and bounded.
 */
export function scanDefinition(
  name: Pick<Finding, 'list' | 'key'>,
  bytes: Buffer,
  others: OtherNames | null,
): readonly Finding[] {
  const scan = new Scan(name);
  if (bytes.length > MAX_BYTES) {
    scan.add('oversized', true, null, `${bytes.length} bytes, too long to read`, 0);
    bytes = bytes.subarray(0, MAX_BYTES);
  }
  for (const text of definitionTexts(bytes)) {
    scan.look(text, others);
    if (scan.isFull) break;
  }
  if (others !== null && name.list === 'tools') {
    const owner = others.ownerOf(name.key);
    if (owner !== null) scan.add('same_name', false, null, `${owner} has a tool of this name`, 0);
  }
  return scan.findings;
}

class Scan {
  readonly findings: Finding[] = [];
  readonly #name: Pick<Finding, 'list' | 'key'>;
  #looks = 0;

  constructor(name: Pick<Finding, 'list' | 'key'>) {
    this.#name = name;
  }

  get isFull(): boolean {
    return this.findings.length >= MAX_FINDINGS || this.#looks >= MAX_LOOKS;
  }

  look(source: DefinitionText, others: OtherNames | null): void {
    const { text } = source;
    const hidden = hiddenCharacters(text);
    if (hidden !== null) {
      const spelled = hidden.spelled === '' ? '' : ` (spells: ${hidden.spelled})`;
      this.add('hidden', true, source, `${hidden.count} hidden: ${printable(text, hidden.at)}${spelled}`, null);
    }
    // Hidden characters between letters must not hide the words.
    const visible = hidden === null ? text : hidden.visible;
    const lower = visible.toLowerCase();
    const frame = frameIn(lower);
    if (frame !== null) this.add('markup', frame.frame !== '<!--', source, visible, frame.at);
    const words = wordsOf(lower);
    if (words.length > 1) {
      for (const [{ kind, grave }, at] of suspiciousPhrases(words.map(({ word }) => word))) {
        this.add(kind, grave, source, visible, words[at]!.at);
      }
    }
    for (const { word, at } of words) {
      if (this.isFull) break;
      if (word.length >= MAX_WORD) this.add('encoded', false, source, visible, at);
      else if (isMixed(word)) this.add('lookalike', false, source, visible, at);
    }
    const mentioned = others === null ? null : others.mentionedIn(words);
    if (mentioned !== null) this.add('other_server', mentioned.grave, source, visible, mentioned.at, mentioned.what);
    if (hidden !== null && hidden.spelled !== '') this.look({ ...source, text: hidden.spelled }, others);
  }

  add(
    kind: FindingKind,
    grave: boolean,
    source: DefinitionText | null,
    text: string,
    at: number | null,
    note = '',
  ): void {
    this.#looks++;
    const pointer = source === null ? '' : printable(source.pointer(), 0, MAX_POINTER);
    if (this.findings.some((known) => known.kind === kind && known.grave === grave && known.pointer === pointer))
      return;
    const excerpt = `${note === '' ? '' : `${note}: `}${at === null ? text : printable(text, at)}`;
    if (this.findings.length < MAX_FINDINGS)
      this.findings.push({ list: this.#name.list, key: this.#name.key, kind, grave, pointer, excerpt });
  }
}

const WORD = /[a-z0-9_'’\-\xab-\xd6\xd8-\xf6\xf8-\u1fff]+/g;

function wordsOf(lower: string): readonly Word[] {
  return Array.from(lower.matchAll(WORD), ({ 0: word, index }) => ({ word: word.replaceAll(/['’]/g, ''), at: index }));
}

/** Whether a word mixes Latin letters with Greek or Cyrillic ones, which can look the same. */
function isMixed(word: string): boolean {
  return /[a-z]/.test(word) && /[\u0370-\u052f]/.test(word);
}

/** One string in a definition: a value, or the name of a member. */
interface DefinitionText {
  readonly text: string;
  /** JSON Pointer of the value, or of the member that it names. */
  pointer(): string;
}

interface Level {
  readonly array: boolean;
  index: number;
  key: string;
  atKey: boolean;
}

/** Every string of a JSON text, in one pass and without recursion. */
function* definitionTexts(bytes: Buffer): Generator<DefinitionText, void, undefined> {
  const levels: Level[] = [];
  const pointer = () => levels.map(({ array, index, key }) => `/${array ? index : escaped(key)}`).join('');
  for (let at = 0; at < bytes.length; at++) {
    const level = levels.at(-1);
    switch (bytes[at]) {
      case 0x7b:
        levels.push({ array: false, index: 0, key: '', atKey: true });
        break;
      case 0x5b:
        levels.push({ array: true, index: 0, key: '', atKey: false });
        break;
      case 0x7d:
      case 0x5d:
        levels.pop();
        break;
      case 0x2c:
        if (level === undefined) break;
        level.index++;
        level.atKey = !level.array;
        break;
      case 0x3a:
        if (level !== undefined) level.atKey = false;
        break;
      case 0x22: {
        const end = skipString(bytes, at, bytes.length);
        if (end < 0) return;
        // A string that is not valid JSON is scanned as it is written.
        const text = decodeString(bytes, at, end) ?? bytes.toString('utf8', at + 1, end - 1);
        if (level?.atKey === true) level.key = text;
        yield { text, pointer };
        at = end - 1;
      }
    }
  }
}

function escaped(key: string): string {
  return key.slice(0, 128).replaceAll('~', '~0').replaceAll('/', '~1');
}

/** Words in this order with at most `MAX_GAP` others between two of them. `|` separates alternatives. */
interface Phrase {
  readonly kind: FindingKind;
  readonly grave: boolean;
  readonly words: readonly ReadonlySet<string>[];
}

const MAX_GAP = 3;

const phrase = (grave: boolean, text: string, kind: FindingKind = 'instruction'): Phrase => ({
  kind,
  grave,
  words: text.split(' ').map((word) => new Set(word.split('|'))),
});

const HIDE = 'tell|mention|inform|reveal|show|disclose';
const WHOM = 'user|human|person|anyone|anybody|them';
const KEYS = 'id_rsa|id_ed25519|id_ecdsa|passwd|keychain';

/** English only: text in another language is found only by the other checks. */
const PHRASES: readonly Phrase[] = [
  phrase(
    true,
    'ignore|disregard|forget previous|prior|above|earlier|preceding|all instructions|rules|prompt|prompts|guidelines',
  ),
  phrase(true, `do|must|should not ${HIDE} ${WHOM}`),
  phrase(true, `dont|never ${HIDE} ${WHOM}`),
  phrase(true, `without telling|informing|mentioning ${WHOM}`),
  phrase(true, 'keep|hide this|it secret|hidden|from user|human|person'),
  phrase(true, `read|cat|open|include|send|pass|attach|upload|copy|contents ${KEYS}`),
  phrase(true, 'new instructions follow|override|replace|supersede'),
  phrase(false, 'you are now'),
  phrase(false, 'system prompt'),
  phrase(false, 'before|prior using|calling|invoking any|other|this tool|tools'),
  phrase(false, 'always|must call|use|invoke|run this|it tool|first|before'),
  phrase(false, 'instead of using|calling tool|tools'),
  phrase(false, 'all|every emails|messages|requests|files must|should be sent|forwarded'),
  phrase(false, 'send|pass|include|read ssh key|keys', 'secret_place'),
  phrase(false, KEYS, 'secret_place'),
  phrase(false, 'aws credentials', 'secret_place'),
  phrase(false, 'cursor|claude|windsurf mcp json', 'secret_place'),
];

const BY_FIRST: ReadonlyMap<string, readonly Phrase[]> = new Map(
  [...new Set(PHRASES.flatMap(({ words }) => [...words[0]!]))].map((word) => [
    word,
    PHRASES.filter(({ words }) => words[0]!.has(word)),
  ]),
);

/** Every phrase that matches, with the word index of its first match. The cost per word is bounded. */
function suspiciousPhrases(words: readonly string[]): ReadonlyMap<Phrase, number> {
  const found = new Map<Phrase, number>();
  for (const [at, word] of words.entries()) {
    for (const one of BY_FIRST.get(word) ?? []) if (!found.has(one) && follows(one, words, at)) found.set(one, at);
  }
  return found;
}

/** Takes the nearest occurrence of each next word, without backtracking, so that the cost per word is bounded. */
function follows({ words: wanted }: Phrase, words: readonly string[], start: number): boolean {
  let at = start;
  for (let next = 1; next < wanted.length; next++) {
    const end = Math.min(words.length, at + MAX_GAP + 2);
    let step = at + 1;
    while (step < end && !wanted[next]!.has(words[step]!)) step++;
    if (step >= end) return false;
    at = step;
  }
  return true;
}

/** Frames by which models recognise the role of a speaker; descriptions do not need them. Grave ones are first. */
const MARKUP: readonly string[] = [
  '<important',
  '<system',
  '<secret',
  '<instruction',
  '</tool',
  '<|im_',
  '<|system',
  '[inst]',
  '<<sys>>',
  '```system',
  '<!--',
];

/** The first entry of `MARKUP` that a lower-case text contains, with its index; null without one. */
function frameIn(lower: string): { readonly at: number; readonly frame: string } | null {
  for (const frame of MARKUP) {
    const at = lower.indexOf(frame);
    if (at >= 0) return { at, frame };
  }
  return null;
}
