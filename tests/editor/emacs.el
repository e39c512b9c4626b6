;;; emacs.el --- The language server in a real Emacs  -*- lexical-binding: t -*-

;;; Commentary:

;; Use the language server as somebody in Emacs would, and write what is seen after each step to a file, a JSON text a
;; row.  The environment names the configuration (TL_SNIPPET), the folder of the program (TL_FOLDER) and that file
;; (TL_REPORT).

;;; Code:

(require 'cl-lib)
(require 'eglot)
(require 'flymake)

(defvar tl-folder (file-name-as-directory (getenv "TL_FOLDER")))
(defvar tl-patience 15 "How long to wait for anything, in seconds.")
(defvar tl-said "" "All that Emacs told the person.")

(advice-add 'message :before
            (lambda (form &rest arguments)
              (when form (setq tl-said (concat tl-said (apply #'format-message form arguments) "\n")))))

(defun tl-tell (step &rest seen)
  "Report what was SEEN after a STEP."
  (let ((coding-system-for-write 'utf-8))
    (write-region (concat (json-serialize (append (list :step step) seen) :false-object :json-false) "\n")
                  nil (getenv "TL_REPORT") 'append 'quiet)))

(defun tl-wait (condition)
  "Wait until CONDITION holds, or patience ends."
  (let ((end (time-add nil tl-patience)))
    (while (not (or (funcall condition) (time-less-p end nil)))
      (accept-process-output nil 0.02))))

(defun tl-findings (buffer)
  "The findings that are shown in BUFFER: code, row and column of each."
  (with-current-buffer buffer
    (save-excursion
      (let (found)
        (dolist (one (flymake-diagnostics))
          (goto-char (flymake-diagnostic-beg one))
          (let ((diagnostic (cdr (assq 'eglot-lsp-diag (flymake-diagnostic-data one)))))
            (push (vector (plist-get diagnostic :code) (line-number-at-pos) (1+ (current-column))) found)))
        (vconcat (sort found (lambda (one other) (< (aref one 1) (aref other 1)))))))))

(defun tl-await (buffer &rest codes)
  "The findings in BUFFER once they have CODES, or those that are there when patience ends."
  (with-current-buffer buffer
    ;; These wait for a person who pauses; Emacs without a terminal has none.
    (eglot--signal-textDocument/didChange)
    (flymake-start)
    (tl-wait (lambda () (equal (mapcar (lambda (one) (aref one 0)) (tl-findings buffer)) codes)))
    (tl-findings buffer)))

(defun tl-disk ()
  "The program as it is on disk."
  (with-temp-buffer
    (insert-file-contents (concat tl-folder "train.py"))
    (buffer-string)))

(defun tl-open (name)
  "Visit the file NAME, which the running server takes over; the buffer."
  (find-file (concat tl-folder name))
  (unless (eglot-managed-p) (eglot--maybe-activate-editing-mode))
  (current-buffer))

(defun tl-replace (row text)
  "Let ROW of the current buffer be TEXT."
  (goto-char (point-min))
  (forward-line (1- row))
  (delete-region (line-beginning-position) (line-end-position))
  (insert text))

(defun tl-execute (command &optional argument)
  "What the server answers to COMMAND with ARGUMENT."
  (eglot-execute-command (eglot-current-server) command (if argument (vector argument) [])))

(defun tl-choose (row column wanted)
  "Open the menu of code actions at ROW and COLUMN and choose the first with WANTED in its title; all titles."
  (goto-char (point-min))
  (forward-line (1- row))
  (move-to-column (1- column))
  (let (titles (last-nonmenu-event ?\r))
    (cl-letf (((symbol-function 'completing-read)
               (lambda (_prompt items &rest _)
                 (setq titles (mapcar #'car items))
                 (cl-find-if (lambda (title) (string-search wanted title)) titles))))
      (call-interactively #'eglot-code-actions))
    (vconcat titles)))

(defun tl-play ()
  "Take all steps."
  (let ((train (tl-open "train.py")))
    (call-interactively #'eglot)
    (tl-tell "opened" :findings (tl-await train "TL405" "TL201"))

    (let ((explained (tl-execute 'trainlint.explain '(:code "TL405"))))
      (tl-tell "explained" :name (plist-get explained :name) :page (plist-get explained :page)))

    (setq tl-said "")
    (tl-choose 13 10 "Why is")
    (tl-wait (lambda () (string-search "TL405 deprecated-amp" tl-said)))
    (tl-tell "asked why" :said tl-said)

    (let* ((titles (tl-choose 13 10 "(TL405"))
           (after (tl-await train "TL201")))
      (save-buffer)
      (tl-tell "fixed one" :titles titles :findings after :disk (tl-disk)))

    (tl-replace 18 "    history.append(loss.detach())")
    (tl-tell "edited" :findings (tl-await train))
    (tl-replace 18 "    history.append(float(value_of(loss)))")
    (tl-tell "edited back" :findings (tl-await train "TL201"))

    (let ((metrics (tl-open "metrics.py")))
      (tl-replace 2 "    return tensor.item()")
      (let ((other (tl-await metrics "TL201")))
        (tl-tell "edited the other file" :other other :findings (tl-await train))))

    (switch-to-buffer train)
    (tl-replace 13 "    with torch.cuda.amp.autocast(dtype=torch.bfloat16):")
    (tl-await train "TL405")
    (let* ((eglot-confirm-server-initiated-edits nil)
           (applied (tl-execute 'trainlint.applyFixAll (list :uri (eglot--path-to-uri buffer-file-name))))
           (after (tl-await train)))
      (save-buffer)
      (tl-tell "fixed all" :applied applied :findings after :disk (tl-disk)))

    (let ((information (tl-execute 'trainlint.debugInformation)))
      (tl-tell "settings" :settings (plist-get (aref (plist-get information :folders) 0) :settings)))))

(load (getenv "TL_SNIPPET") nil t t)
(setq eglot-sync-connect tl-patience
      make-backup-files nil)
(condition-case fault
    (tl-play)
  (error (tl-tell "failed" :why (error-message-string fault))))
(when (eglot-current-server) (eglot-shutdown (eglot-current-server)))

;;; emacs.el ends here
