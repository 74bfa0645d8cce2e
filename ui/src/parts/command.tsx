import { copyText } from './clipboard.ts';

interface CommandProps {
  readonly text: string;
  /** The node of the cluster at which it does the same; where it does not matter, none. */
  readonly node?: string | undefined;
}

/** The command that does what the page does, to be copied. */
export function Command({ text, node }: CommandProps) {
  return (
    <span class="command">
      {node === undefined ? null : <span class="soft">{`at node ${node}:`}</span>}
      <code>{text}</code>
      <button type="button" class="plain" aria-label={`Copy ${text}`} title="Copy" onClick={() => void copyText(text)}>
        <svg class="copy" viewBox="0 0 16 16" aria-hidden="true">
          <path d="M5.5 5.5h8v8h-8zM2.5 10.5v-8h8" />
        </svg>
      </button>
    </span>
  );
}

/** A word of a shell command. */
export function shellWord(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}
