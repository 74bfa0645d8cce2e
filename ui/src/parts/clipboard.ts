import { toast } from './toasts.tsx';

/** Copies the text, and says what became of it. */
export async function copyText(text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    toast('good', 'Copied');
  } catch {
    toast('bad', 'The browser does not let this page copy; select the text instead');
  }
}
