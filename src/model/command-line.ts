interface LineSpan {
  readonly start: number;
  readonly end: number;
}

export interface CommandWord {
  readonly text: string;
  /** Includes the quotes. */
  readonly span: LineSpan;
}

/** What is wrong with a command line. */
export interface CommandLineError {
  readonly complaint: string;
  readonly fix: string;
  readonly span: LineSpan;
}

const BLANK = /\s/;
/** Shell operators between commands and files. */
const OPERATOR = /^(?:\|\|?|&&?|;|\d?(?:>>?|<<?)(?:&\d)?)$/;

/** The words of a command line, split and unquoted as in a POSIX shell, without expansion. */
export function splitCommandLine(text: string): readonly CommandWord[] | CommandLineError {
  const words: CommandWord[] = [];
  for (let at = 0; at < text.length; ) {
    if (BLANK.test(text[at]!) || isContinued(text, at)) {
      at += BLANK.test(text[at]!) ? 1 : 2;
      continue;
    }
    const word = wordAt(text, at);
    if ('complaint' in word) return word;
    words.push(word);
    at = word.span.end;
  }
  const operator = words.find(({ span }) => OPERATOR.test(text.slice(span.start, span.end)));
  if (operator === undefined) return words;
  const complaint = `${JSON.stringify(operator.text)} has a meaning in a shell only, and no shell runs this`;
  return { complaint, fix: "leave it out, or write: sh -c '…'", span: operator.span };
}

function wordAt(text: string, start: number): CommandWord | CommandLineError {
  let word = '';
  let at = start;
  while (at < text.length && !BLANK.test(text[at]!)) {
    const c = text[at]!;
    if (c === '"' || c === "'") {
      const quoted = quotedAt(text, at);
      if (quoted === null) {
        const complaint = `this quote is never closed: ${c}`;
        return { complaint, fix: `add ${c} at the end of the argument`, span: { start: at, end: at + 1 } };
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

/** The content of the quotes that open at `open`; null if they are not closed. */
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

/** Whether a backslash ends the line at `at`. */
function isContinued(text: string, at: number): boolean {
  return text[at] === '\\' && text[at + 1] === '\n';
}
