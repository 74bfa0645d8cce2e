import type { Problems, Source, TextSpan } from '../problem/problem.ts';

export interface CommandWord {
  readonly text: string;
  /** With its quotes. */
  readonly span: TextSpan;
}

const BLANK = /\s/;
/** What connects commands and files in a shell. */
const OPERATOR = /^(?:\|\|?|&&?|;|\d?(?:>>?|<<?)(?:&\d)?)$/;

/** The words of a command line as a POSIX shell separates and unquotes them. Nothing is expanded. Null after a problem. */
export function commandWords(source: Source, problems: Problems): readonly CommandWord[] | null {
  const { text } = source;
  const words: CommandWord[] = [];
  for (let at = 0; at < text.length; ) {
    if (BLANK.test(text[at]!) || isContinued(text, at)) {
      at += BLANK.test(text[at]!) ? 1 : 2;
      continue;
    }
    const word = wordAt(source, at, problems);
    if (word === null) return null;
    words.push(word);
    at = word.span.end;
  }
  const operator = words.find(({ span }) => OPERATOR.test(text.slice(span.start, span.end)));
  if (operator === undefined) return words;
  const message = `${JSON.stringify(operator.text)} has a meaning in a shell only, and no shell runs this`;
  problems.error('TL1101', source, operator.span, message, "leave it out, or write: sh -c '…'");
  return null;
}

function wordAt(source: Source, start: number, problems: Problems): CommandWord | null {
  const { text } = source;
  let word = '';
  let at = start;
  while (at < text.length && !BLANK.test(text[at]!)) {
    const c = text[at]!;
    if (c === '"' || c === "'") {
      const quoted = quotedAt(text, at);
      if (quoted === null) {
        const message = `this quote is never closed: ${c}`;
        problems.error('TL1101', source, { start: at, end: at + 1 }, message, `add ${c} at the end of the argument`);
        return null;
      }
      word += quoted.text;
      at = quoted.end;
    } else if (c === '\\' && at + 1 < text.length) {
      if (!isContinued(text, at)) word += text[at + 1]!;
      at += 2;
    } else {
      word += c;
      at++;
    }
  }
  return { text: word, span: { start, end: at } };
}

/** What the quotes that open there hold; null where nothing closes them. */
function quotedAt(text: string, open: number): { readonly text: string; readonly end: number } | null {
  const quote = text[open]!;
  let inner = '';
  for (let at = open + 1; at < text.length; at++) {
    const c = text[at]!;
    if (c === quote) return { text: inner, end: at + 1 };
    if (quote === '"' && c === '\\' && /["\\$`\n]/.test(text[at + 1] ?? '')) {
      at++;
      if (text[at] !== '\n') inner += text[at]!;
    } else inner += c;
  }
  return null;
}

/** A backslash at the end of a line. */
function isContinued(text: string, at: number): boolean {
  return text[at] === '\\' && text[at + 1] === '\n';
}
