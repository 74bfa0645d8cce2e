import { useSignal } from '@preact/signals';
import { Command } from './command.tsx';
import { act } from './toasts.tsx';

interface ActionProps<T> {
  readonly label: string;
  /** The command that does the same. */
  readonly command: string;
  /** The node at which the command does the same; where it does not matter, none. */
  readonly node?: string | undefined;
  readonly run: () => Promise<T>;
  /** Said when it has worked. */
  readonly done: string | ((answer: T) => string);
  readonly after?: (answer: T) => void;
  readonly disabled?: boolean;
  /** It takes something away: it asks once more, in its place. */
  readonly careful?: boolean;
}

/** A button that does something, with the command that does the same beside it. */
export function Action<T>({
  label,
  command,
  node,
  run,
  done,
  after,
  disabled = false,
  careful = false,
}: ActionProps<T>) {
  const busy = useSignal(false);
  const asked = useSignal(false);
  const press = async (): Promise<void> => {
    if (careful && !asked.value) {
      asked.value = true;
      return;
    }
    asked.value = false;
    busy.value = true;
    const answer = await act(done, run);
    busy.value = false;
    if (answer !== null) after?.(answer);
  };
  return (
    <div class="action">
      <button
        type="button"
        class={careful ? 'careful' : ''}
        disabled={disabled || busy.value}
        aria-busy={busy.value}
        onBlur={() => (asked.value = false)}
        onClick={() => void press()}
      >
        {busy.value ? `${label}…` : asked.value ? `Confirm: ${label}` : label}
      </button>
      <Command text={command} node={node} />
    </div>
  );
}
