import type { FindingKind } from '../../model/drift.ts';

/** Words that stand in this order with at most `MAX_GAP` others between two of them. `|` separates alternatives. */
interface Phrase {
  readonly kind: FindingKind;
  readonly grave: boolean;
  readonly words: readonly ReadonlySet<string>[];
}

/** A match, by the number of its first word. */
interface PhraseMatch {
  readonly kind: FindingKind;
  readonly grave: boolean;
  readonly at: number;
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

/** English only: who writes in another language is not found by words, only by what is hidden. */
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

const BY_FIRST: ReadonlyMap<string, readonly Phrase[]> = index();

function index(): Map<string, Phrase[]> {
  const byFirst = new Map<string, Phrase[]>();
  for (const one of PHRASES) {
    for (const word of one.words[0]!) byFirst.set(word, [...(byFirst.get(word) ?? []), one]);
  }
  return byFirst;
}

/** Every phrase once, where it occurs first. Each word is looked at a bounded number of times. */
export function suspiciousPhrases(words: readonly string[]): readonly PhraseMatch[] {
  const found = new Map<Phrase, PhraseMatch>();
  for (let at = 0; at < words.length; at++) {
    const phrases = BY_FIRST.get(words[at]!);
    if (phrases === undefined) continue;
    for (const one of phrases) {
      if (!found.has(one) && follows(one, words, at)) found.set(one, { kind: one.kind, grave: one.grave, at });
    }
  }
  return [...found.values()];
}

/** The nearest occurrence of each further word is taken: no way back, so no more than a few steps a word. */
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

/** Frames by which models recognise who speaks; descriptions have no use for them. */
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
  '<!--',
  '```system',
];

/** The first frame in a text in lower case, and where; null without one. */
export function framesOf(lower: string): { readonly at: number; readonly frame: string } | null {
  for (const frame of MARKUP) {
    const at = lower.indexOf(frame);
    if (at >= 0) return { at, frame };
  }
  return null;
}
